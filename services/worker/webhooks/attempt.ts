import type { AttemptResult, Outbound } from '@sluice/outbound/outbound'
import { sign } from '@sluice/outbound/signature'
import type { TakenDelivery } from '@sluice/postgres/delivery-queue'
import { AppError } from '@sluice/runtime/errors'
import type { SecretBox } from '@sluice/runtime/secret-box'

export interface AttemptDeps {
  outbound: Pick<Outbound, 'post' | 'mail'>
  secrets: Pick<SecretBox, 'open' | 'tryOpen'>
}

/**
 * One attempt to deliver, at `now` (Unix ms), signed anew. Every failure is an outcome; only an abort of `signal` rejects.
 * A target that can't be decrypted is an outcome too, so that its owner can read the reason.
 */
export async function attempt(
  { outbound, secrets }: AttemptDeps,
  delivery: TakenDelivery,
  now: number,
  signal: AbortSignal,
): Promise<AttemptResult> {
  try {
    const target = secrets.open(delivery.targetBox)
    if (delivery.channel === 'email') return await outbound.mail(mailOf(delivery, target), signal)
    const headers = { 'content-type': 'application/json', ...signatureHeaders(secrets, delivery, String(now)) }
    return await outbound.post({ url: target, headers, body: delivery.body }, signal)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const reason = 'the stored URL or secret cannot be decrypted: set it anew'
    return { succeeded: false, status: null, latencyMs: 0, response: null, error: reason, retryAfterMs: null }
  }
}

function mailOf({ id, body }: TakenDelivery, target: string): Parameters<Outbound['mail']>[0] {
  const { subject, text } = JSON.parse(body.toString('utf8')) as { subject: string; text: string }
  return { to: JSON.parse(target) as string[], subject, text, messageId: id }
}

function signatureHeaders(
  secrets: AttemptDeps['secrets'],
  { id, channel, body, secretBox, previousSecretBox }: TakenDelivery,
  timestamp: string,
): Record<string, string> {
  if (channel !== 'webhook') return {}
  // A secret from before SLUICE_SECRETS_KEY was replaced can't sign any more, and its owner has set a new one.
  const previousSecret = previousSecretBox && secrets.tryOpen(previousSecretBox)
  return {
    'x-svc-delivery': id,
    'x-svc-timestamp': timestamp,
    ...(secretBox && { 'x-svc-signature': sign(secrets.open(secretBox), timestamp, body) }),
    ...(previousSecret && { 'x-svc-signature-previous': sign(previousSecret, timestamp, body) }),
  }
}
