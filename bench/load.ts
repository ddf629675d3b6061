import autocannon from 'autocannon'

export interface LoadResult {
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
}

const warmUpSeconds = 3
const seconds = 10

/** Sends the bodies in turn over `connections` for 10 s, after 3 s of warming up. Throws when a response is not 202. */
export async function load(
  url: string,
  {
    bodies,
    connections,
    headers,
  }: { bodies: readonly string[]; connections: number; headers: Readonly<Record<string, string>> },
): Promise<LoadResult> {
  let next = 0
  const options: autocannon.Options = {
    url,
    method: 'POST',
    connections,
    headers: { ...headers, 'content-type': 'application/json' },
    requests: [
      {
        setupRequest: (request) => ({ ...request, body: bodies[next++ % bodies.length] ?? '' }),
      },
    ],
  }
  await autocannon({ ...options, duration: warmUpSeconds })
  const result = await autocannon({ ...options, duration: seconds })
  if (result.non2xx + result.errors > 0)
    throw new Error(`${result.non2xx} answers were not 202, ${result.errors} failed`)
  return { requestsPerSecond: result.requests.average, p50Ms: result.latency.p50, p99Ms: result.latency.p99 }
}
