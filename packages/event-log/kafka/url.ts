import { readCaFile } from '@sluice/runtime/ca-file'
import { parameterMistakes } from '@sluice/runtime/url-parameters'

const mechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const
const parameters = ['tls', 'sasl', 'ca']
/** Kafka's limit of 249 characters, minus the longest suffix that Sluice adds. */
const topicLengthMax = 249 - '.backfill'.length

export type SaslMechanism = (typeof mechanisms)[number]

/** The parts of a `kafka:` URL. */
export interface KafkaAddress {
  /** `host:port`, at least one. */
  brokers: string[]
  topic: string
  /** TLS to the brokers; `ca` holds PEM certificates to trust instead of the system's. */
  tls: { ca: string | undefined } | undefined
  sasl: { mechanism: SaslMechanism; username: string; password: string } | undefined
}

/**
 * Reads `kafka://[user:pass@]h1:9092,h2:9092/<topic>?tls=true&sasl=plain|scram-sha-256|scram-sha-512&ca=<file>`.
 * The port defaults to 9092, user and password may be percent-encoded, `ca` names a PEM file.
 * Throws one Error that names every mistake; it never holds the password.
 */
export function parseKafkaUrl(text: string): KafkaAddress {
  const mistakes: string[] = []
  const match =
    /^kafka:\/\/(?:(?<userInfo>[^/?#]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<topic>[^?#]*))?(?:\?(?<query>[^#]*))?$/.exec(text)
  if (match?.groups === undefined) throw new Error('SLUICE_LOG_URL: expected kafka://host:9092/topic')
  const { userInfo, hosts = '', topic = '', query } = match.groups

  const brokers = hosts.split(',').map((host, index) => readBroker(host, `broker ${index + 1}`, mistakes))
  readTopic(topic, mistakes)
  const search = new URLSearchParams(query ?? '')
  mistakes.push(...parameterMistakes(search, parameters))
  const address: KafkaAddress = {
    brokers,
    topic,
    tls: readTls(search, mistakes),
    sasl: readSasl(userInfo, search.get('sasl'), mistakes),
  }
  if (mistakes.length > 0) throw new Error(`SLUICE_LOG_URL: ${mistakes.join('; ')}`)
  return address
}

// The messages quote neither hosts nor the topic: these may contain parts of a password that was not percent-encoded.
function readBroker(text: string, name: string, mistakes: string[]): string {
  const match = /^([A-Za-z0-9._-]+)(?::(\d+))?$/.exec(text)
  const port = Number(match?.[2] ?? 9092)
  // kafkajs splits an address at its first colon.
  if (text.startsWith('['))
    mistakes.push(`${name} is an IPv6 address, which the Kafka client can't connect to: use a host name`)
  else if (match?.[1] === undefined) mistakes.push(text === '' ? `${name} is empty` : `${name} is not host:port`)
  else if (port < 1 || port > 65535) mistakes.push(`the port of ${name} is not between 1 and 65535`)
  return `${match?.[1] ?? ''}:${port}`
}

/** Kafka's rule for names, with space for the suffix of `<topic>.backfill`. */
function readTopic(topic: string, mistakes: string[]): void {
  if (topic.includes('@')) mistakes.push('user or password are not percent-encoded ("/" is %2F, "@" is %40)')
  else if (topic === '') mistakes.push('the topic is missing; add one, as in kafka://host:9092/sluice.events')
  else if (!/^[A-Za-z0-9._-]+$/.test(topic) || topic === '.' || topic === '..') {
    mistakes.push('the topic is made of letters, digits, ".", "_" and "-"')
  } else if (topic.length > topicLengthMax) mistakes.push(`the topic is longer than ${topicLengthMax} characters`)
}

function readTls(search: URLSearchParams, mistakes: string[]): KafkaAddress['tls'] {
  const value = search.get('tls') ?? 'false'
  const file = search.get('ca')
  if (value !== 'true' && value !== 'false') mistakes.push(`"tls" is true or false, not "${value}"`)
  if (value !== 'true') {
    if (file !== null) mistakes.push('"ca" needs tls=true')
    return undefined
  }
  return readCaFile(file, mistakes)
}

function readSasl(userInfo: string | undefined, sasl: string | null, mistakes: string[]): KafkaAddress['sasl'] {
  const mechanism = mechanisms.find((known) => known === sasl)
  if (sasl !== null && mechanism === undefined)
    mistakes.push(`"sasl" is one of ${mechanisms.join(', ')}, not "${sasl}"`)
  if (userInfo === undefined) {
    if (sasl !== null) mistakes.push('"sasl" needs user:password@ before the first broker')
    return undefined
  }
  if (sasl === null) mistakes.push(`user and password need sasl=${mechanisms.join('|')}`)
  const [username = '', ...rest] = userInfo.split(':')
  const password = rest.join(':')
  if (username === '') mistakes.push('the user is empty')
  if (password === '') mistakes.push('the password is empty')
  if (mechanism === undefined) return undefined
  try {
    return { mechanism, username: decodeURIComponent(username), password: decodeURIComponent(password) }
  } catch {
    mistakes.push('user or password are not percent-encoded ("%" is %25, "@" is %40)')
    return undefined
  }
}
