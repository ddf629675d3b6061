import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'

/** An event as an SDK sends it. */
export interface SentEvent {
  event_id: string
  timestamp: number
  event_type: string
  [field: string]: unknown
}

/** A request as it came to the proxy. */
export interface ProxiedRequest {
  method: string
  /** Path and query. */
  url: string
  headers: IncomingHttpHeaders
  body: Buffer
  isGzip: boolean
  /** The events of /collect/batch; empty for other requests. */
  events: readonly SentEvent[]
  /** The last answer of the service, whether it was passed on or not. Status 0: the service could not be reached. */
  answer?: { status: number; text: string }
}

/** What happens to a request on its way to the service. */
export type Treatment =
  | { kind: 'forward' }
  /** The connection is closed: the service does not get the request, or its answer is lost. */
  | { kind: 'cut-before' | 'cut-after' }
  /** The connection is closed within the body of the answer, after its status and headers. */
  | { kind: 'cut-within' }
  /** The service gets the request later. */
  | { kind: 'delay'; ms: number }
  /** The service gets the request a second time, later. */
  | { kind: 'repeat'; afterMs: number }
  /** The request is held until the next one has been answered, or 300 ms. */
  | { kind: 'reorder' }
  /** The request is held until there are `count` such requests, which are then answered one after the other. */
  | { kind: 'together'; count: number }
  /** This is the answer, before the service has the request, or in place of the service's own one. */
  | { kind: 'answer'; status: number; headers?: Readonly<Record<string, string>>; body?: object; isForwarded?: true }

export interface CollectProxy {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string
  /** The requests that have arrived, in their order. */
  readonly requests: ProxiedRequest[]
  /** All events of all requests. */
  events(type?: string): SentEvent[]
  /** Decides what happens to each POST; tests may replace it. By default every request is forwarded. */
  treat: (request: ProxiedRequest) => Treatment
  /** Waits for the second copies that are still to come. */
  settle(): Promise<void>
  stop(): Promise<void>
}

/**
 * A proxy between the SDKs of an application and a service that fails in all the ways in which networks and servers
 * fail. With `isPatient`, the proxy itself repeats requests that an overloaded service answers with 503; otherwise the
 * SDK would send another request.
 */
export async function startCollectProxy(
  target: string,
  { isPatient = false }: { isPatient?: boolean } = {},
): Promise<CollectProxy> {
  const requests: ProxiedRequest[] = []
  const copies: Promise<unknown>[] = []
  const state: Pick<CollectProxy, 'treat'> = { treat: () => ({ kind: 'forward' }) }
  let held: (() => void)[] = []
  let gathered: (() => void)[] = []
  let lastGathered: Promise<unknown> = Promise.resolve()

  /** Resolves when the request may be forwarded. */
  async function hold(treatment: Treatment, response: ServerResponse): Promise<void> {
    if (treatment.kind === 'delay') await sleep(treatment.ms)
    if (treatment.kind === 'reorder')
      await Promise.race([new Promise<void>((resolve) => held.push(resolve)), sleep(300)])
    if (treatment.kind !== 'together') return
    const before = lastGathered
    lastGathered = new Promise((resolve) => response.once('close', resolve))
    await new Promise<void>((resolve) => {
      gathered.push(resolve)
      if (gathered.length < treatment.count) return
      for (const resume of gathered) resume()
      gathered = []
    })
    await before
  }

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const one = await read(incoming)
    requests.push(one)
    const treatment = one.method === 'POST' ? state.treat(one) : { kind: 'forward' as const }
    if (treatment.kind === 'cut-before') return void response.destroy()
    if (treatment.kind === 'answer' && !treatment.isForwarded) {
      sendAnswer(response, treatment)
      return
    }
    await hold(treatment, response)
    if (treatment.kind === 'repeat')
      copies.push(sleep(treatment.afterMs).then(() => forward(target, one).catch(() => undefined)))
    const { status, headers, body } = await (isPatient ? forwardPatiently : forward)(target, one)
    if (treatment.kind === 'cut-after') response.destroy()
    else if (treatment.kind === 'cut-within')
      response.writeHead(status, headers).write(body.subarray(0, 9), () => response.destroy())
    else if (treatment.kind === 'answer') sendAnswer(response, treatment)
    else response.writeHead(status, headers).end(body)
    if (treatment.kind === 'reorder') return
    for (const resume of held) resume()
    held = []
  }

  const server = createServer((incoming, response) => {
    // The service or the SDK has ended.
    handle(incoming, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    events: (type?: string) =>
      requests.flatMap(({ events }) => events).filter((each) => type === undefined || each.event_type === type),
    settle: async () => {
      await Promise.all(copies)
    },
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
}

async function read(incoming: IncomingMessage): Promise<ProxiedRequest> {
  const body = await readAll(incoming)
  const isGzip = body[0] === 0x1f && body[1] === 0x8b
  const { method = '', url = '', headers } = incoming
  const isBatch = method === 'POST' && url.includes('/collect/batch')
  const text = isBatch && isGzip ? gunzipSync(body).toString() : body.toString()
  const { events } = (isBatch ? JSON.parse(text) : { events: [] }) as Pick<ProxiedRequest, 'events'>
  return { method, url, headers, body, isGzip, events }
}

interface Forwarded {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

async function forward(target: string, one: ProxiedRequest): Promise<Forwarded> {
  const { method, url, headers } = one
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(target + url, { method, headers }, resolve)
        .once('error', reject)
        .end(one.body)
    })
    const [status, body] = [answer.statusCode ?? 0, await readAll(answer)]
    one.answer = { status, text: body.toString() }
    return { status, headers: answer.headers, body }
  } catch (error) {
    one.answer = { status: 0, text: String(error) }
    throw error
  }
}

async function forwardPatiently(target: string, one: ProxiedRequest): Promise<Forwarded> {
  for (let attempt = 1; ; attempt++) {
    const answer = await forward(target, one)
    if (answer.status !== 503 || attempt === 50) return answer
    await sleep(200)
  }
}

/** Pages of another origin read the status of an answer and these headers only by permission. */
function sendAnswer(response: ServerResponse, { status, headers, body }: Treatment & { kind: 'answer' }): void {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset',
    ...headers,
  })
  response.end(JSON.stringify(body ?? { success: false, error: `injected ${status}`, timestamp: Date.now() }))
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}
