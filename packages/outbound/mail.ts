import { createTransport, type SMTPSentMessageInfo } from 'nodemailer'
import { errorCode } from '@sluice/runtime/errors'
import { isCertificateFailure, isHandshakeFailure } from './describe-failure.ts'
import type { AttemptResult, MailMessage } from './outbound.ts'

export interface MailOptions {
  smtp: { url: string; from: string } | undefined
  timeoutMs: number
}

/** Maximum number of characters that are kept of the server's answer. */
const responseLengthMax = 4_096

/** Sends one e-mail over its own connection. See Outbound.mail. */
export async function mail(
  message: MailMessage,
  { smtp, timeoutMs }: MailOptions,
  signal: AbortSignal,
): Promise<AttemptResult> {
  signal.throwIfAborted()
  if (!smtp) return failed(null, 'SLUICE_SMTP_URL is not set', 0)
  const startedAt = performance.now()
  const elapsed = (): number => Math.round(performance.now() - startedAt)
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const sent = await send(message, { smtp, timeoutMs }, AbortSignal.any([signal, timeout]))
    const { response, accepted, rejected, rejectedErrors = [] } = sent
    const deferring = rejectedErrors.filter(({ permanent }) => permanent === false)
    const [first] = deferring
    if (first) {
      const deferred = deferring.map(({ recipient = '' }) => recipient)
      const rejectedForGood = rejected.filter((address) => !deferred.includes(address))
      const alsoRejected = rejectedForGood.length === 0 ? '' : `, and ${namesOf(rejectedForGood)} for good`
      return {
        ...failed(smtpStatus(first), `the SMTP server refused ${namesOf(deferred)} for now${alsoRejected}`, elapsed()),
        response: serverText(first, message.to),
        settledRecipients: settledOf(message.to, { answered: [...accepted, ...rejected], deferred }),
      }
    }
    return {
      succeeded: true,
      status: statusOf(response),
      latencyMs: elapsed(),
      response: withoutAddresses(response, message.to),
      // The other recipients have got the message, so it is not sent again for the refused ones.
      error: rejected.length === 0 ? null : `the SMTP server refused ${namesOf(rejected)}`,
      retryAfterMs: null,
    }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.aborted)
      return failed(null, `the SMTP server did not take the message within ${timeoutMs / 1_000} s`, elapsed())
    return { ...failed(smtpStatus(error), describe(error), elapsed()), response: serverText(error, message.to) }
  }
}

/** Shortened addresses for errors, which are logged and stored unencrypted: `a…@example.com, b…@example.com`. */
function namesOf(addresses: readonly string[]): string {
  return addresses.map((address) => address.replace(/^(.?).*(?=@)/su, '$1…')).join(', ')
}

/**
 * The recipients that need no further attempt. The server gets an international domain in its ASCII form. A recipient
 * with such a domain is not found here, and gets the message a second time.
 */
function settledOf(
  recipients: readonly string[],
  { answered, deferred }: { answered: readonly string[]; deferred: readonly string[] },
): string[] {
  const lowerCase = (addresses: readonly string[]) => new Set(addresses.map((address) => address.toLowerCase()))
  const [answeredOnes, deferredOnes] = [lowerCase(answered), lowerCase(deferred)]
  return recipients.filter((recipient) => {
    const address = recipient.toLowerCase()
    return answeredOnes.has(address) && !deferredOnes.has(address)
  })
}

async function send(
  { to, subject, text, messageId }: MailMessage,
  { smtp, timeoutMs }: { smtp: { url: string; from: string }; timeoutMs: number },
  signal: AbortSignal,
): Promise<SMTPSentMessageInfo> {
  const transport = createTransport({
    url: smtp.url,
    dnsTimeout: timeoutMs,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  try {
    return await transport.sendMail({
      from: smtp.from,
      to: [...to],
      subject,
      text,
      messageId: withDomain(messageId, smtp.from),
      // Otherwise mailboxes of people who are away answer each message (RFC 3834).
      headers: { 'Auto-Submitted': 'auto-generated' },
      signal,
    })
  } finally {
    transport.close()
  }
}

/** A Message-ID is `<name@domain>`. An id without a domain gets the sender's. */
function withDomain(messageId: string, from: string): string {
  const bare = messageId.replace(/^<|>$/g, '')
  const domain = /@([^\s>]+)>?\s*$/.exec(from)?.[1] ?? 'localhost'
  return bare.includes('@') ? `<${bare}>` : `<${bare}@${domain}>`
}

function failed(status: number | null, error: string, latencyMs: number): AttemptResult {
  return { succeeded: false, status, latencyMs, response: null, error, retryAfterMs: null }
}

const handshakeFailed = 'the TLS handshake with the SMTP server failed'
/** Texts by nodemailer's codes. Nodemailer's messages may contain addresses and hosts of the operator. */
const texts: Readonly<Record<string, string>> = {
  EAUTH: 'the SMTP server refused the credentials',
  ECONNECTION: 'the SMTP server cannot be reached',
  ESOCKET: 'the SMTP server cannot be reached',
  EDNS: 'the SMTP server cannot be reached',
  ETIMEDOUT: 'the SMTP server does not answer in time',
  ETLS: handshakeFailed,
  EENVELOPE: 'the SMTP server refused the sender or the recipients',
  EMESSAGE: 'the SMTP server refused the message',
}

function describe(error: unknown): string {
  const code = errorCode(error) ?? ''
  // Where nodemailer replaces a code, such as CERT_HAS_EXPIRED, by one of its own, it keeps the former one.
  const hasOriginal = typeof error === 'object' && error !== null && 'originalCode' in error
  const original = hasOriginal ? String(error.originalCode) : ''
  if (isCertificateFailure(original)) return `the TLS certificate of the SMTP server is not valid (${original})`
  if (isHandshakeFailure(original)) return handshakeFailed
  return texts[code] ?? `the e-mail could not be sent${code === '' ? '' : ` (${code})`}`
}

function smtpStatus(error: unknown): number | null {
  const status: unknown = error instanceof Error && 'responseCode' in error ? error.responseCode : null
  return typeof status === 'number' ? status : null
}

function serverText(error: unknown, recipients: readonly string[]): string | null {
  const text: unknown = error instanceof Error && 'response' in error ? error.response : null
  return typeof text === 'string' ? withoutAddresses(text, recipients) : null
}

/**
 * The beginning of a server's text. Such texts often repeat the refused address, which is shortened. NUL is replaced,
 * because Postgres can't store it.
 */
function withoutAddresses(text: string, recipients: readonly string[]): string {
  let short = text
  for (const address of recipients) {
    // Servers repeat the domain in lower case.
    const pattern = new RegExp(address.replaceAll(/[^\p{L}\p{N}]/gu, String.raw`\$&`), 'gi')
    short = short.replaceAll(pattern, namesOf([address]))
  }
  return short.slice(0, responseLengthMax).replaceAll('\0', '\uFFFD')
}

function statusOf(response: string): number | null {
  const status = /^\d{3}/.exec(response)?.[0]
  return status === undefined ? null : Number(status)
}
