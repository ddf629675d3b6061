import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A fault that replaces the answer to a request. */
export const faults = [
  'cut before the request',
  'cut after the answer',
  '429 before the request',
  '503 before the request',
  '503 after the answer',
] as const

export type Fault = (typeof faults)[number]

export interface FaultyProxy {
  url: string
  /** How often each fault was injected. */
  injected: ReadonlyMap<Fault, number>
  /** Messages that the service has answered with a 2xx, copies included. */
  delivered: () => number
  /** Bodies of answers that refuse a message for good; after a 503, which a busy machine may answer, clients try again. */
  refusals: readonly string[]
  stop: () => Promise<void>
}

/**
 * A proxy in front of a service for Segment's clients. The first attempt of every second request meets a fault, each kind in
 * turn, and so does half of the second attempts. Later attempts pass, so that a client that retries ends soon.
 */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const injected = new Map<Fault, number>()
  const refusals: string[] = []
  let turns = 0
  let delivered = 0

  function nextFault(incoming: IncomingMessage): Fault | undefined {
    // Preflights pass: the browser does not repeat them.
    if (incoming.method === 'OPTIONS' || Number(incoming.headers['x-retry-count'] ?? 0) > 1) return undefined
    const turn = turns++
    const fault = turn % 2 === 0 ? faults[(turn / 2) % faults.length] : undefined
    if (fault !== undefined) injected.set(fault, (injected.get(fault) ?? 0) + 1)
    return fault
  }

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = nextFault(incoming)
    const body = await readAll(incoming)
    if (fault === 'cut before the request') return void incoming.socket.destroy()
    if (fault === '429 before the request') {
      refuse(response, 429, { 'Retry-After': '1' })
      return
    }
    if (fault === '503 before the request') {
      refuse(response, 503, { 'Retry-After': '1' })
      return
    }
    const answer = await forward(incoming, body)
    if (incoming.method === 'POST') {
      if (answer.status < 300) delivered += messagesIn(body)
      else if (answer.status < 500) refusals.push(answer.text)
    }
    if (fault === 'cut after the answer') return void incoming.socket.destroy()
    if (fault === '503 after the answer') {
      refuse(response, 503, {})
      return
    }
    response.writeHead(answer.status, answer.headers).end(answer.text)
  }

  function forward(
    { method, url, headers }: IncomingMessage,
    body: Buffer,
  ): Promise<{ status: number; headers: IncomingMessage['headers']; text: string }> {
    return new Promise((resolve, reject) => {
      const outgoing = request(`${target}${url ?? ''}`, { method, headers }, (answer) => {
        readAll(answer).then((bytes) => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: bytes.toString() })
        }, reject)
      })
      outgoing.once('error', reject)
      outgoing.end(body)
    })
  }

  const server = createServer((incoming, response) => {
    handle(incoming, response).catch((error: unknown) => {
      refusals.push(String(error))
      incoming.socket.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    injected,
    delivered: () => delivered,
    refusals,
    stop: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Pages read the status of an answer of another origin only with this header. */
function refuse(response: ServerResponse, status: number, headers: Readonly<Record<string, string>>): void {
  response
    .writeHead(status, {
      ...headers,
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Expose-Headers': 'Retry-After',
    })
    .end('{"success":false}')
}

function messagesIn(body: Buffer): number {
  const { batch } = JSON.parse(body.toString()) as { batch?: unknown[] }
  return batch?.length ?? 1
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
