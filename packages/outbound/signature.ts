import { createHmac } from 'node:crypto'

/** The header `x-svc-signature`: HMAC-SHA-256(secret, timestamp + "." + body) in lower-case hex. */
export function sign(secret: string, timestamp: string, body: Uint8Array): string {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')
}
