import type { AttemptResult, Outbound } from '@sluice/outbound/outbound'
import { sign } from '@sluice/outbound/signature'
import type { TakenDelivery } from '@sluice/postgres/delivery-queue'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'

export interface AttemptDeps {
  outbound: Pick<Outbound, 'post' | 'mail'>
  secrets: Pick<SecretCipher, 'decrypt' | 'tryDecrypt' | 'fingerprint' | 'isFingerprintOf'>
}

/**
 * One attempt to deliver, at `now` (Unix ms), with a new signature. Every failure of the receiver is an outcome. An
 * abort of `signal` rejects, and so does a URL or secret that can't be decrypted, which is not the receiver's fault.
 */
export async function attempt(
  { outbound, secrets }: AttemptDeps,
  delivery: TakenDelivery,
  now: number,
  signal: AbortSignal,
): Promise<AttemptResult> {
  const target = secrets.decrypt(delivery.encryptedTarget)
  if (delivery.channel === 'email') {
    const message = mailOf(delivery, recipientsOf(secrets, delivery, target))
    return message.to.length === 0 ? nothingLeft : outbound.mail(message, signal)
  }
  const headers = { 'content-type': 'application/json', ...signatureHeaders(secrets, delivery, String(now)) }
  return outbound.post({ url: target, headers, body: delivery.body }, signal)
}

/** The outcome when a user has removed all recipients that lack the message. */
const nothingLeft: AttemptResult = {
  succeeded: true,
  status: null,
  latencyMs: 0,
  response: null,
  error: null,
  retryAfterMs: null,
}

/** The recipients that lack the message. */
function recipientsOf(
  secrets: Pick<SecretCipher, 'isFingerprintOf'>,
  { settledRecipients }: TakenDelivery,
  target: string,
): string[] {
  const recipients = JSON.parse(target) as string[]
  return recipients.filter((to) => !settledRecipients.some((settled) => secrets.isFingerprintOf(settled, to)))
}

function mailOf({ id, body }: TakenDelivery, to: readonly string[]): Parameters<Outbound['mail']>[0] {
  const { subject, text } = JSON.parse(body.toString('utf8')) as { subject: string; text: string }
  return { to, subject, text, messageId: id }
}

function signatureHeaders(
  secrets: AttemptDeps['secrets'],
  { id, channel, body, encryptedSecret, previousEncryptedSecret }: TakenDelivery,
  timestamp: string,
): Record<string, string> {
  if (channel !== 'webhook') return {}
  // A previous secret that can't be decrypted, because SLUICE_SECRETS_KEY was replaced, does not sign. Its owner has
  // set a new one.
  const previousSecret = previousEncryptedSecret && secrets.tryDecrypt(previousEncryptedSecret)
  return {
    'x-svc-delivery': id,
    'x-svc-timestamp': timestamp,
    ...(encryptedSecret && { 'x-svc-signature': sign(secrets.decrypt(encryptedSecret), timestamp, body) }),
    ...(previousSecret && { 'x-svc-signature-previous': sign(previousSecret, timestamp, body) }),
  }
}
