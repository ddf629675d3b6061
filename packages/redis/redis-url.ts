import { readCaFile } from '@sluice/runtime/ca-file'
import { parameterMistakes } from '@sluice/runtime/url-parameters'

const parameters = ['ca', 'prefix']
const sentinelParameters = ['db', 'prefix']
const defaultPrefix = 'sluice:'

export interface RedisNode {
  host: string
  port: number
}

/** The place of Redis: a server, or the Sentinels that know which server is the primary with this name. */
export type RedisPlace = RedisNode | { sentinels: RedisNode[]; name: string }

/** The address and the settings in a Redis URL. */
export type RedisAddress = RedisPlace & RedisSettings

interface RedisSettings {
  username: string | undefined
  password: string | undefined
  /** Number of the database. */
  db: number
  /** TLS, for `rediss:`; `ca` holds PEM certificates to trust instead of the system's. */
  tls: { ca: string | undefined } | undefined
  /** Prefix of all keys. */
  prefix: string
}

/**
 * Reads `redis[s]://[[user]:password@]host[:6379][/<database>][?ca=<file>&prefix=sluice:]`. User and password may be
 * percent-encoded, and `ca` names a PEM file. Several installations can share a Redis if each has its own `prefix`.
 * Also reads `redis+sentinel://[[user]:password@]host[:26379],…/<name of the primary>[?db=<database>&prefix=sluice:]`,
 * with the user and password of the primary. Throws one Error that names every mistake; it never contains the password.
 */
export function parseRedisUrl(text: string): RedisAddress {
  if (text.startsWith('redis+sentinel:')) return parseSentinelUrl(text)
  if (!/^rediss?:\/\//.test(text) || !URL.canParse(text)) {
    throw new Error('SLUICE_REDIS_URL: expected redis://host:6379 or rediss://host:6379')
  }
  const { protocol, hostname, port, username, password, pathname, searchParams, hash } = new URL(text)
  const mistakes: string[] = []
  if (hostname === '') mistakes.push('the host is missing')
  if (port === '0') mistakes.push('the port is not between 1 and 65535')
  // The message does not quote the text, which may contain part of a password that was not percent-encoded.
  if (!/^\/?\d{0,5}$/.test(pathname)) mistakes.push('the database is not a number')
  if (hash !== '') mistakes.push('"#" is not percent-encoded ("%23")')
  mistakes.push(...parameterMistakes(searchParams, parameters))
  const address: RedisAddress = {
    // An IPv6 address is in brackets.
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(port || '6379'),
    username: decode(username, 'user', mistakes),
    password: decode(password, 'password', mistakes),
    db: Number(pathname.slice(1)),
    tls: readTls(protocol, searchParams.get('ca'), mistakes),
    prefix: searchParams.get('prefix') ?? defaultPrefix,
  }
  throwMistakes(address, mistakes)
  return address
}

/** A parser of its own, because `URL` does not support a list of hosts. */
function parseSentinelUrl(text: string): RedisAddress {
  const match =
    /^redis\+sentinel:\/\/(?:(?<user>[^/?#:]*)(?::(?<password>[^/?#]*))?@)?(?<hosts>[^/?#@]*)(?:\/(?<name>[^?#]*))?(?:\?(?<query>[^#]*))?$/.exec(
      text,
    )
  if (match?.groups === undefined) {
    throw new Error('SLUICE_REDIS_URL: expected redis+sentinel://host:26379,host:26379/<name of the primary>')
  }
  const { user = '', password = '', hosts = '', name = '', query = '' } = match.groups
  const search = new URLSearchParams(query)
  const mistakes = parameterMistakes(search, sentinelParameters)
  const db = search.get('db') ?? '0'
  if (!/^\d{1,5}$/.test(db)) mistakes.push('"db" is not a number')
  if (!/^[A-Za-z0-9._-]+$/.test(name))
    mistakes.push('the name of the primary is missing, or is not made of letters, digits, ".", "-" and "_"')
  const address: RedisAddress = {
    sentinels: hosts.split(',').map((host, index) => readNode(host, `Sentinel ${index + 1}`, mistakes)),
    name,
    username: decode(user, 'user', mistakes),
    password: decode(password, 'password', mistakes),
    db: Number(db),
    tls: undefined,
    prefix: search.get('prefix') ?? defaultPrefix,
  }
  throwMistakes(address, mistakes)
  return address
}

function throwMistakes({ username, password }: RedisSettings, mistakes: string[]): void {
  if (username !== undefined && password === undefined) mistakes.push('the password is missing')
  if (mistakes.length > 0) throw new Error(`SLUICE_REDIS_URL: ${mistakes.join('; ')}`)
}

/**
 * Reads `host[:26379]`. The messages do not quote the text, which may contain part of a password that was not
 * percent-encoded.
 */
function readNode(text: string, name: string, mistakes: string[]): RedisNode {
  const match = /^(?:\[(?<address>[0-9a-f:]+)\]|(?<host>[A-Za-z0-9._-]+))(?::(?<port>\d+))?$/i.exec(text)
  const { address, host = address ?? '', port: portText = '26379' } = match?.groups ?? {}
  const port = Number(portText)
  if (match === null) mistakes.push(`${name} is not host:port`)
  else if (port < 1 || port > 65_535) mistakes.push(`the port of ${name} is not between 1 and 65535`)
  return { host, port }
}

function decode(text: string, name: string, mistakes: string[]): string | undefined {
  if (text === '') return undefined
  try {
    return decodeURIComponent(text)
  } catch {
    mistakes.push(`the ${name} is not percent-encoded ("%" is %25)`)
    return undefined
  }
}

function readTls(protocol: string, file: string | null, mistakes: string[]): RedisAddress['tls'] {
  if (protocol !== 'rediss:') {
    if (file !== null) mistakes.push('"ca" needs rediss:')
    return undefined
  }
  return readCaFile(file, mistakes)
}
