import type { Resolve } from './resolve-host.ts'

export interface OutboundOptions {
  /** Networks in CIDR notation that deliveries may connect to although they are not public. */
  allowedNetworks: readonly string[]
  /** URL of a proxy for all webhooks, which then judges names; literal addresses are judged here all the same. */
  proxy?: string | undefined
  /** The operator's server for e-mail; without it every e-mail fails. */
  smtp?: { url: string; from: string } | undefined
  /** Names to addresses; the machine's DNS by default. */
  resolve?: Resolve | undefined
  /** Length of an attempt in all, DNS and connecting included, ms. */
  timeoutMs?: number | undefined
  /** Unix ms, for dates in `Retry-After`. */
  now?: (() => number) | undefined
  /** Certificates to trust besides those of Node, PEM, in tests. */
  ca?: string | undefined
}

/** A POST to an address that a user named. */
export interface PostRequest {
  url: string
  headers: Readonly<Record<string, string>>
  body: Uint8Array
}

/** An e-mail to addresses that a user named. */
export interface MailMessage {
  to: readonly string[]
  subject: string
  text: string
  /** Stable for each delivery, so that servers and readers know a repeat: a name, or `name@domain`. */
  messageId: string
}

/** The outcome of an attempt. No text holds a URL, a header or a credential. */
export interface AttemptResult {
  /**
   * The receiver answered with 2xx, and with its whole response or 4 KiB of it; or the SMTP server took the message and
   * needs no further attempt.
   */
  succeeded: boolean
  /** Status of HTTP or SMTP; null when there was no answer. */
  status: number | null
  latencyMs: number
  /** The first 4 KiB of the response's body, or the SMTP server's line. */
  response: string | null
  /** The error, as a clause; for a success, the recipients that the SMTP server refused for good. */
  error: string | null
  /** The delay that `Retry-After` of a failure asks for, ms. */
  retryAfterMs: number | null
  /**
   * Recipients that need no further attempt, of an e-mail that the SMTP server took for them and refused for others
   * with a 4xx, as greylisting does. The attempt is a failure.
   */
  settledRecipients?: readonly string[]
}

/** The only code that opens connections to places that users name. */
export interface Outbound {
  /**
   * One POST. Every failure is an outcome; only an abort of `signal` rejects, with its reason. Reads at most 4 KiB of
   * the response, ends within `timeoutMs`, follows no redirect, ignores HTTP_PROXY. Each POST has a connection of its
   * own.
   */
  post(request: PostRequest, signal: AbortSignal): Promise<AttemptResult>
  /** One e-mail; as `post` otherwise. */
  mail(message: MailMessage, signal: AbortSignal): Promise<AttemptResult>
  /** Aborts what is under way: those calls reject. */
  close(): Promise<void>
}
