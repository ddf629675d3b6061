import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { ConfigError } from '@sluice/runtime/config'
import type { Logger } from '@sluice/runtime/logger'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

/** The configuration of TLS: paths of PEM files, both or none. */
export interface TlsConfig {
  SLUICE_TLS_CERT?: string | undefined
  SLUICE_TLS_KEY?: string | undefined
}

/** A certificate with its chain, and its key, in PEM. */
export interface TlsPair {
  cert: string
  key: string
}

/** Settings of a listener with TLS. Node's default of the version may be lowered by its command line. */
export const tlsSettings = { minVersion: 'TLSv1.2' } as const

/** A certificate that is read again when its files change. */
export interface TlsCertificate {
  /** The contents of the files when they were last usable. */
  pair(): TlsPair
  /** When that certificate expires. */
  notAfter(): Date
  /** Sentences for /readyz: an expired certificate, files that can't be used. */
  warnings(): readonly string[]
  /** Reads the files from time to time; `use` gets each new pair. */
  watch(use: (pair: TlsPair) => void): Component
}

/** Certificates are renewed days before they end. */
const defaultCheckMs = 10_000

/**
 * Reads the certificate of a listener; undefined: the listener has no TLS. Throws ConfigError, with what to do, when a
 * file can't be used. An expired certificate is only a warning, because clients may be configured to accept it.
 */
export function openTlsCertificate(
  config: TlsConfig,
  logger: Pick<Logger, 'info' | 'warn'>,
  checkMs = defaultCheckMs,
): TlsCertificate | undefined {
  const { SLUICE_TLS_CERT: certFile, SLUICE_TLS_KEY: keyFile } = config
  if (certFile === undefined && keyFile === undefined) return undefined
  if (certFile === undefined || keyFile === undefined) {
    throw new ConfigError(['SLUICE_TLS_CERT and SLUICE_TLS_KEY must be set both, or neither'])
  }
  let pair = readPair(certFile, keyFile)
  requirePair(pair)
  /** The contents of the files when they were last read, usable or not. */
  let seen: TlsPair | undefined = pair
  let mistake: string | undefined
  warnOfExpiry()

  function warnOfExpiry(): void {
    const sentence = expiryOf(pair)
    if (sentence !== undefined) logger.warn(sentence)
  }

  /** Certificate and key are replaced one after the other: until they fit, the former ones stay in use. */
  function readAgain(paths: readonly [cert: string, key: string], use: (pair: TlsPair) => void): void {
    const before = seen
    seen = undefined
    try {
      seen = readPair(...paths)
      if (before !== undefined && isSame(seen, before)) return
      requirePair(seen)
      mistake = undefined
      if (isSame(seen, pair)) return
      pair = seen
      use(pair)
      logger.info({ until: new X509Certificate(pair.cert).validTo }, 'TLS certificate reloaded')
      warnOfExpiry()
    } catch (error) {
      const text = `${describe(error)}; keeping the former certificate`
      if (text !== mistake) logger.warn(text)
      mistake = text
    }
  }

  return {
    pair: () => pair,
    notAfter: () => new X509Certificate(pair.cert).validToDate,
    warnings: () => [expiryOf(pair), mistake].filter((sentence) => sentence !== undefined),
    watch: (use) =>
      poller({
        name: 'TLS certificate',
        intervalMs: checkMs,
        poll: () => {
          readAgain([certFile, keyFile], use)
          return Promise.resolve()
        },
      }),
  }
}

function isSame(one: TlsPair, other: TlsPair): boolean {
  return one.cert === other.cert && one.key === other.key
}

function readPair(certFile: string, keyFile: string): TlsPair {
  const mistakes: string[] = []
  const read = (name: string, file: string): string => {
    try {
      return readFileSync(file, 'utf8')
    } catch (error) {
      const { code = 'unknown' } = error as NodeJS.ErrnoException
      // The value is not quoted: it may be the key itself, and /readyz shows these sentences to everybody.
      mistakes.push(
        file.includes('-----BEGIN')
          ? `${name} holds PEM itself: write that to a file, and give the path of the file`
          : `${name} names a file that cannot be read (${code}): give the path of a PEM file that this user may read`,
      )
      return ''
    }
  }
  const pair = { cert: read('SLUICE_TLS_CERT', certFile), key: read('SLUICE_TLS_KEY', keyFile) }
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  return pair
}

/** Throws ConfigError when certificate and key can't be used with each other. */
function requirePair({ cert, key }: TlsPair): void {
  const mistakes: string[] = []
  const certificate = attempt(() => new X509Certificate(cert))
  const privateKey = attempt(() => createPrivateKey(key))
  if (certificate === undefined) {
    mistakes.push('SLUICE_TLS_CERT holds no certificate in PEM: it begins with -----BEGIN CERTIFICATE-----')
  }
  if (privateKey === undefined) {
    mistakes.push(
      key.includes('ENCRYPTED')
        ? 'SLUICE_TLS_KEY holds a key with a passphrase: decrypt it, e.g. with "openssl pkey -in key.pem -out plain.pem"'
        : 'SLUICE_TLS_KEY holds no private key in PEM: it begins with -----BEGIN PRIVATE KEY-----',
    )
  }
  if (certificate !== undefined && privateKey !== undefined && !certificate.checkPrivateKey(privateKey)) {
    mistakes.push(
      'SLUICE_TLS_KEY is not the key of the first certificate in SLUICE_TLS_CERT: give the key that it was made with, ' +
        'and put the server’s certificate before those of its authorities',
    )
  }
  if (mistakes.length === 0 && attempt(() => createSecureContext({ ...tlsSettings, cert, key })) === undefined) {
    mistakes.push('SLUICE_TLS_CERT holds a chain that OpenSSL refuses: check each of its certificates')
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes)
}

function attempt<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch {
    return undefined
  }
}

function expiryOf({ cert }: TlsPair): string | undefined {
  const { validToDate } = new X509Certificate(cert)
  if (validToDate.getTime() > Date.now()) return undefined
  return `the certificate of SLUICE_TLS_CERT expired on ${validToDate.toISOString()}: renew it`
}

function describe(error: unknown): string {
  if (error instanceof ConfigError) return error.mistakes.join('; ')
  return error instanceof Error ? error.message : String(error)
}
