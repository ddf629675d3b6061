import { readCaFile } from '@sluice/runtime/ca-file'

const parameters = ['ca', 'prefix']

/** The address and the settings in a `redis:` URL. */
export interface RedisAddress {
  host: string
  port: number
  username: string | undefined
  password: string | undefined
  /** Number of the database. */
  db: number
  /** TLS, for `rediss:`; `ca` holds PEM certificates to trust instead of the system's. */
  tls: { ca: string | undefined } | undefined
  /** The beginning of all keys. */
  prefix: string
}

/**
 * Reads `redis[s]://[[user]:password@]host[:6379][/<database>][?ca=<file>&prefix=sluice:]`. User and password may be
 * percent-encoded, `ca` names a PEM file. Several installations can share a Redis with a `prefix` each.
 * Throws one Error that names every mistake; it never holds the password.
 */
export function parseRedisUrl(text: string): RedisAddress {
  if (!/^rediss?:\/\//.test(text) || !URL.canParse(text)) {
    throw new Error('SLUICE_REDIS_URL: expected redis://host:6379 or rediss://host:6379')
  }
  const { protocol, hostname, port, username, password, pathname, searchParams, hash } = new URL(text)
  const mistakes: string[] = []
  if (hostname === '') mistakes.push('the host is missing')
  if (port === '0') mistakes.push('the port is not between 1 and 65535')
  // The text is not quoted: it may hold part of a password that was not percent-encoded.
  if (!/^\/?\d{0,5}$/.test(pathname)) mistakes.push('the database is not a number')
  if (hash !== '') mistakes.push('"#" is not percent-encoded ("%23")')
  for (const name of new Set(searchParams.keys())) {
    if (!parameters.includes(name)) mistakes.push(`unknown parameter (known: ${parameters.join(', ')})`)
    else if (searchParams.getAll(name).length > 1) mistakes.push(`the parameter "${name}" is given twice`)
  }
  const address: RedisAddress = {
    // An IPv6 address is in brackets.
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(port || '6379'),
    username: decode(username, 'user', mistakes),
    password: decode(password, 'password', mistakes),
    db: Number(pathname.slice(1)),
    tls: readTls(protocol, searchParams.get('ca'), mistakes),
    prefix: searchParams.get('prefix') ?? 'sluice:',
  }
  if (address.username !== undefined && address.password === undefined) mistakes.push('the password is missing')
  if (mistakes.length > 0) throw new Error(`SLUICE_REDIS_URL: ${mistakes.join('; ')}`)
  return address
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
