import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { AppError, internalError } from './errors.ts'

/** Encrypts secrets that Sluice has to know in plain text later, so that no dump of Postgres shows them. */
export interface SecretCipher {
  /** Encrypts a text, or bytes, with AES-256-GCM. The same text gives another ciphertext each time. */
  encrypt(text: string | Buffer): Buffer
  /** Throws AppError `internal`, with what to do, when neither key encrypted the ciphertext, or it is damaged. */
  decrypt(ciphertext: Buffer): string
  /** Like `decrypt`, for bytes. */
  decryptBytes(ciphertext: Buffer): Buffer
  /**
   * Like `decrypt`, but undefined for a ciphertext that can't be decrypted, so that a list can show the other secrets.
   */
  tryDecrypt(ciphertext: Buffer): string | undefined
  /** A keyed hash of 32 bytes, by which equal texts are found without decrypting them. */
  fingerprint(text: string): Buffer
  /** Whether `fingerprint` is that of the text by one of the keys. */
  isFingerprintOf(fingerprint: Buffer, text: string): boolean
  /** The bytes with which the ciphertexts of each key begin. */
  prefixes: { current: Buffer; previous: Buffer | undefined }
}

const algorithm = 'aes-256-gcm'
/** First byte of every ciphertext. Another format will have another one. */
const version = 1
/** Bytes of a ciphertext: version, the first bytes of a hash of the key, nonce, tag, and the encrypted text. */
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headerBytes = 1 + keyIdBytes

/**
 * The 32 bytes of a key that is written in base64 (44 characters) or in hex (64). Throws an Error whose message
 * continues the name of the variable and does not hold the key.
 */
export function readSecretsKey(text: string): Buffer {
  const encoding = /^[0-9a-f]{64}$/i.test(text) ? 'hex' : 'base64'
  const isKey = encoding === 'hex' || /^[A-Za-z0-9+/]{43}=$/.test(text)
  if (!isKey) throw new Error('must be 32 bytes in base64 or hex; "openssl rand -base64 32" makes them')
  return Buffer.from(text, encoding)
}

/**
 * Creates a cipher. `readSecretsKey` says which keys are valid and what is thrown for others. Ciphertexts of
 * `previousKey` are decrypted as well; `encrypt` and `fingerprint` use `key` alone.
 */
export function createSecretCipher(key: string, previousKey?: string): SecretCipher {
  const current = deriveKeys(key)
  const other = previousKey === undefined ? undefined : deriveKeys(previousKey)
  const previous = other?.header.equals(current.header) === true ? undefined : other
  const keys = previous === undefined ? [current] : [current, previous]

  const decryptBytes = (ciphertext: Buffer): Buffer => {
    const found = keys.find(({ header }) => ciphertext.subarray(0, headerBytes).equals(header))
    if (found === undefined) throw cannotDecrypt('was stored with another SLUICE_SECRETS_KEY')
    const nonce = ciphertext.subarray(headerBytes, headerBytes + nonceBytes)
    const tag = ciphertext.subarray(headerBytes + nonceBytes, headerBytes + nonceBytes + tagBytes)
    const encrypted = ciphertext.subarray(headerBytes + nonceBytes + tagBytes)
    try {
      const decipher = createDecipheriv(algorithm, found.encryption, nonce, { authTagLength: tagBytes })
      decipher.setAAD(found.header).setAuthTag(tag)
      return Buffer.concat([decipher.update(encrypted), decipher.final()])
    } catch (error) {
      throw cannotDecrypt('is damaged', error)
    }
  }

  const decrypt = (ciphertext: Buffer): string => decryptBytes(ciphertext).toString('utf8')

  return {
    encrypt: (text) => {
      const { encryption, header } = current
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, encryption, nonce, { authTagLength: tagBytes }).setAAD(header)
      const encrypted = Buffer.concat([cipher.update(text), cipher.final()])
      return Buffer.concat([header, nonce, cipher.getAuthTag(), encrypted])
    },
    decrypt,
    decryptBytes,
    tryDecrypt: (ciphertext) => {
      try {
        return decrypt(ciphertext)
      } catch (error) {
        if (error instanceof AppError) return undefined
        throw error
      }
    },
    fingerprint: (text) => fingerprintBy(current, text),
    isFingerprintOf: (fingerprint, text) => keys.some((each) => fingerprintBy(each, text).equals(fingerprint)),
    prefixes: { current: current.header, previous: previous?.header },
  }
}

function fingerprintBy({ hashing }: { hashing: Buffer }, text: string): Buffer {
  return createHmac('sha256', hashing).update(text, 'utf8').digest()
}

/** Derives a key for each purpose, so that neither use says anything about the other. */
function deriveKeys(key: string): { encryption: Buffer; hashing: Buffer; header: Buffer } {
  const master = readSecretsKey(key)
  const derive = (purpose: string): Buffer => Buffer.from(hkdfSync('sha256', master, '', purpose, 32))
  const keyId = derive('sluice key id').subarray(0, keyIdBytes)
  return {
    encryption: derive('sluice secret box'),
    hashing: derive('sluice fingerprint'),
    header: Buffer.concat([Buffer.of(version), keyId]),
  }
}

function cannotDecrypt(reason: string, cause?: unknown): AppError {
  return internalError(
    `A stored secret ${reason}. Set SLUICE_SECRETS_KEY_PREVIOUS to the key that it was stored with, or set the secret again.`,
    cause,
  )
}
