import type { Resolve } from './resolve-host.ts'

export interface OutboundOptions {
  /** Networks in CIDR notation to which deliveries may connect although they are not public. */
  allowedNetworks: readonly string[]
  /** Networks in CIDR notation to which deliveries may not connect although they are public. */
  refusedNetworks?: readonly string[]
  /** URL of a proxy for all webhooks. The proxy then checks names, but literal addresses are still checked here. */
  proxy?: string | undefined
  /** The operator's server for e-mail. Without it, every e-mail fails. */
  smtp?: { url: string; from: string } | undefined
  /** Resolves names to addresses; by default by the machine's DNS. */
  resolve?: Resolve | undefined
  /** Time limit of an attempt in ms, including DNS and connecting. */
  timeoutMs?: number | undefined
  /** Returns Unix ms, for dates in `Retry-After`. */
  now?: (() => number) | undefined
  /** PEM certificates to trust in addition to Node's; for tests. */
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
  /**
   * The same for all attempts of a delivery, so that servers and readers recognise a repeat: a name, or `name@domain`.
   */
  messageId: string
}

/** The outcome of an attempt. Its texts contain no URL, header or credential. */
export interface AttemptResult {
  /**
   * True when the receiver answered with 2xx and sent its whole response or 4 KiB of it, or when the SMTP server took
   * the message and no recipient needs a further attempt.
   */
  succeeded: boolean
  /** Status of HTTP or SMTP; null without an answer. */
  status: number | null
  latencyMs: number
  /** The first 4 KiB of the response's body, or the SMTP server's line. */
  response: string | null
  /** The error, as a clause. After a success, the recipients that the SMTP server refused permanently. */
  error: string | null
  /** The delay that a failed response requests by `Retry-After`, in ms. */
  retryAfterMs: number | null
  /**
   * Present when the SMTP server took an e-mail for some recipients and refused others with a 4xx, for example because
   * of greylisting: the recipients that need no further attempt. Such an attempt is a failure.
   */
  settledRecipients?: readonly string[]
}

/** Opens connections to targets that users name. No other code does. */
export interface Outbound {
  /**
   * Sends one POST over its own connection. Every failure is an outcome; it rejects only when `signal` aborts, with its
   * reason. Reads at most 4 KiB of the response, ends within `timeoutMs`, follows no redirects and ignores HTTP_PROXY.
   */
  post(request: PostRequest, signal: AbortSignal): Promise<AttemptResult>
  /** Sends one e-mail, with the rules of `post`. */
  mail(message: MailMessage, signal: AbortSignal): Promise<AttemptResult>
  /** Aborts the running calls, which then reject. */
  close(): Promise<void>
}
