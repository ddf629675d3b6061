import type { Answer, ApiRequest } from '@sluice/http/route'

/** GET /api/v1/session: who asks, be it by a session or by a key (contract section 2). */
export function getSessionHandler() {
  return ({ credential: { keyId, scopes, expiresAt }, session }: ApiRequest): Promise<Answer> => {
    const ends = [expiresAt, session?.expiresAt].filter((end) => typeof end === 'number')
    return Promise.resolve({
      status: 200,
      data: { expires_at: ends.length === 0 ? null : Math.min(...ends), key_id: keyId, scopes },
    })
  }
}
