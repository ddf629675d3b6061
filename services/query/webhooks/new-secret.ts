import { randomBytes } from 'node:crypto'

/** A secret that signs deliveries: 192 random bits as 32 characters of base64url. */
export function newSecret(): string {
  return randomBytes(24).toString('base64url')
}
