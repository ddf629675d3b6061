import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a receiver does with an attempt. */
export const behaviours = ['ok', 'error', 'slow-down', 'redirect', 'hang', 'reset', 'gone'] as const
export type Behaviour = (typeof behaviours)[number]

/** `Retry-After` of `slow-down`, s. */
export const retryAfterSeconds = 7

/** A request that reached a receiver. */
export interface ReceivedAttempt {
  deliveryId: string
  /** The path of its URL. */
  receiver: string
  source: string
  behaviour: Behaviour
  isSigned: boolean
}

export interface Receivers {
  url: string
  received: ReceivedAttempt[]
  close(): Promise<void>
}

/** Always does the same, or chooses randomly for each attempt. */
export type Plan = Behaviour | 'mixed'

const mixed: readonly Behaviour[] = ['ok', 'ok', 'error', 'slow-down', 'redirect', 'hang', 'reset']

/**
 * Receivers on one port of loopback: the first part of a URL's path is the plan. Signatures are checked with `secret`.
 */
export async function startReceivers({ secret, seed }: { secret: string; seed: number }): Promise<Receivers> {
  const received: ReceivedAttempt[] = []
  const counts = new Map<string, number>()

  function drawn(deliveryId: string): Behaviour {
    const n = (counts.get(deliveryId) ?? 0) + 1
    counts.set(deliveryId, n)
    const [byte = 0] = createHash('sha256').update(`${seed} ${deliveryId} ${n}`).digest()
    return mixed[byte % mixed.length] ?? 'ok'
  }

  function receive(request: IncomingMessage, body: string): Behaviour {
    const header = (name: string): string => String(request.headers[`x-svc-${name}`])
    const receiver = request.url ?? ''
    const plan = receiver.split('/')[1] as Plan
    const deliveryId = header('delivery')
    const behaviour = plan === 'mixed' ? drawn(deliveryId) : plan
    const signature = createHmac('sha256', secret)
      .update(`${header('timestamp')}.${body}`)
      .digest('hex')
    const { data } = JSON.parse(body) as { data: { source: string } }
    const isSigned = signature === header('signature')
    received.push({ deliveryId, receiver, source: data.source, behaviour, isSigned })
    return behaviour
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => respond(request, response, receive(request, Buffer.concat(chunks).toString())))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const statuses = { ok: 200, error: 500, 'slow-down': 429, redirect: 302, gone: 410 } as const

function respond(request: IncomingMessage, response: ServerResponse, behaviour: Behaviour): void {
  if (behaviour === 'hang') return
  if (behaviour === 'reset') {
    request.socket.resetAndDestroy()
    return
  }
  const headers = { 'Retry-After': String(retryAfterSeconds), Location: '/mixed/elsewhere' }
  response.writeHead(statuses[behaviour], headers).end('answered')
}
