import { Failure, messageOf } from './failure.ts'

/** There was no answer. */
export class ConnectionFailure extends Failure {
  /** The code of the system or of TLS, `ECONNREFUSED`. */
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

const tlsCodes = /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|EPROTO$)/

/** The environment variable that names the address of the query service, or that of the gateway. */
export type AddressSetting = 'SLUICE_URL' | 'SLUICE_COLLECT_URL'

/**
 * The Failure of a request without an answer, in a sentence that says what to look at. `setting` names the address
 * `url`.
 */
export function connectionFailure(error: unknown, url: string, setting: AddressSetting): ConnectionFailure {
  const code = codeOf(error)
  const { hostname, host } = new URL(url)
  const sentence = (): string => {
    switch (code) {
      case 'ECONNREFUSED':
        return `Nothing listens at ${host}: start Sluice, or set ${setting} to its address.`
      case 'ENOTFOUND':
      case 'EAI_AGAIN':
        return `The name ${hostname} can't be resolved: check the address in ${setting}, and the network.`
      case 'ECONNRESET':
      case 'UND_ERR_SOCKET':
      case 'EPIPE':
        return `${host} ended the connection without an answer: see whether Sluice runs there, and its log.`
      case 'TimeoutError':
      case 'ETIMEDOUT':
      case 'UND_ERR_CONNECT_TIMEOUT':
      case 'UND_ERR_HEADERS_TIMEOUT':
        return `${host} does not answer in time: check the address in ${setting}, firewalls, and the load of Sluice.`
      case 'ERR_SSL_WRONG_VERSION_NUMBER':
      case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
        return `${host} does not speak TLS: set ${setting} to http://${host}.`
      default:
        return tlsCodes.test(code)
          ? `The certificate of ${host} is not accepted (${code}): renew it, or name its authority in NODE_EXTRA_CA_CERTS.`
          : `${host} can't be reached (${code}): check the address in ${setting}.`
    }
  }
  return new ConnectionFailure(sentence(), code)
}

/**
 * The codes of the system, of TLS and of fetch; other failures are mistakes in the address, such as a port that fetch
 * refuses.
 */
const codePattern = /^[A-Za-z_]+$/

/** Whether a server that is there may answer the same request a moment later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof ConnectionFailure)) return false
  const { code } = error
  return codePattern.test(code) && !tlsCodes.test(code) && !isServerAbsent(error)
}

/** Whether nothing listens at the address, or the name is unknown. A retry helps only while a server is starting. */
export function isServerAbsent(error: unknown): boolean {
  return error instanceof ConnectionFailure && ['ECONNREFUSED', 'ENOTFOUND'].includes(error.code)
}

/** The code of an error or of what caused it, because fetch wraps the error of the socket. Without a code, its text. */
export function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  if (!(error instanceof Error)) return messageOf(error)
  if ('code' in error && typeof error.code === 'string') return error.code
  if (error.cause !== undefined) return codeOf(error.cause)
  return error.name === 'Error' || error.name === 'TypeError' ? error.message : error.name
}
