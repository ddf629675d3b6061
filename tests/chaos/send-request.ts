import { type Agent, request } from 'node:http'

export interface RequestOptions {
  key: string
  /** Body of a POST: JSON, or what is sent as JSON; without it, the request is a GET. */
  body?: string | object
  /** Determines whether connections are kept alive. */
  agent: Agent
  /** Maximum time until the answer is complete. */
  timeoutMs: number
}

export interface Answer {
  status: number
  retryAfter: string | null
  text: string
}

/** Sends one request without retries. Rejects when the connection fails or the answer is too late. */
export function sendRequest(url: string, { key, body, agent, timeoutMs }: RequestOptions): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const content = body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const outgoing = request(
    url,
    {
      agent,
      method: content === undefined ? 'GET' : 'POST',
      headers: {
        Authorization: `Bearer ${key}`,
        ...(content && { 'Content-Type': 'application/json', 'Content-Length': content.length }),
      },
      signal: AbortSignal.timeout(timeoutMs),
    },
    (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          retryAfter: response.headers['retry-after'] ?? null,
          text: Buffer.concat(chunks).toString('utf8'),
        })
      })
    },
  )
  outgoing.on('error', reject)
  outgoing.end(content)
  return promise
}
