import { createServer, type IncomingMessage, request as httpRequest, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An insert on its way from a writer to ClickHouse. */
export interface PassingInsert {
  readonly queryId: string
  /** URL of the server that the insert is for. */
  readonly serverUrl: string
  /** ClickHouse has answered the insert, or can't answer it any more. */
  readonly isOver: boolean
  /** Ends the writer's connection. ClickHouse still executes what it has received. */
  cut(): void
}

/**
 * Points at which an insert can be held: it continues when the hook's promise resolves. Tests may replace the hooks.
 */
export interface InsertHooks {
  /**
   * The proxy has received the whole insert, and ClickHouse nothing; an insert that is cut here never reaches
   * ClickHouse.
   */
  onArrived?: ((insert: PassingInsert) => Promise<void>) | undefined
  /** ClickHouse has answered; an insert that is cut here is stored, and its writer gets no answer. */
  onAnswered?: ((insert: PassingInsert) => Promise<void>) | undefined
}

export interface ClickHouseProxy {
  /** The URL to give to a writer instead of ClickHouse's own. */
  readonly url: string
  hooks: InsertHooks
  /** Seconds that every insert waits in ClickHouse between its look-back and its end; at most 3. */
  slowSeconds: number
  close(): Promise<void>
}

/**
 * A proxy between a writer and ClickHouse, so that something can happen at an exact point of an insert. `serverUrls`
 * are for a cluster, whose servers have different hosts and the same port: the proxy listens on the same hosts.
 */
export async function clickHouseProxy(
  clickHouseUrl: string,
  serverUrls: readonly string[] = [clickHouseUrl],
): Promise<ClickHouseProxy> {
  const state: Pick<ClickHouseProxy, 'hooks' | 'slowSeconds'> = { hooks: {}, slowSeconds: 0 }

  async function forward(serverUrl: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', new URL(serverUrl).origin)
    const queryId = url.searchParams.get('query_id') ?? ''
    const isInsert = queryId.startsWith('writer-')
    const insert = { queryId, serverUrl, isOver: false, cut: () => request.socket.destroy() }
    const isCut = (): boolean => request.socket.destroyed
    const body = await readAll(request)
    if (isInsert) await state.hooks.onArrived?.(insert)
    if (isCut()) return
    const forwarded = isInsert && state.slowSeconds > 0 ? slowedDown(body, state.slowSeconds) : body
    const answer = await post(url, request, forwarded).finally(() => {
      insert.isOver = true
    })
    if (isInsert && answer.status === 200) await state.hooks.onAnswered?.(insert)
    if (isCut()) return
    response.writeHead(answer.status, answer.headers)
    response.end(answer.body)
  }

  let port = 0
  const servers: Server[] = []
  for (const serverUrl of serverUrls) {
    const server = createServer((request, response) => {
      // ClickHouse or the writer is unavailable: the connection between them breaks.
      forward(serverUrl, request, response).catch(() => request.socket.destroy())
    })
    await new Promise<void>((resolve) => server.listen(port, new URL(serverUrl).hostname, resolve))
    port = (server.address() as AddressInfo).port
    servers.push(server)
  }
  const url = new URL(clickHouseUrl)
  url.port = String(port)
  return Object.assign(state, {
    url: url.href,
    close: async () => {
      await Promise.all(servers.map(closeServer))
    },
  })
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/**
 * The form of an insert, whose field `query` ends with `SELECT … FROM (…)`: a sleep in the outer SELECT comes after the
 * look-back.
 */
function slowedDown(form: Buffer, seconds: number): Buffer {
  const begin = form.indexOf('name="query"')
  const end = form.indexOf('\r\n--', begin)
  if (begin === -1 || end === -1) throw new Error('the form has no statement')
  return Buffer.concat([form.subarray(0, end), Buffer.from(` WHERE sleep(${seconds}) = 0`), form.subarray(end)])
}

interface Answer {
  status: number
  headers: IncomingMessage['headers']
  body: Buffer
}

function post(url: URL, { method, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = { ...headers, ...('content-length' in headers && { 'content-length': String(body.length) }) }
    const onward = httpRequest(url, { method, headers: sent }, (answer) => {
      readAll(answer).then((read) => {
        resolve({ status: answer.statusCode ?? 502, headers: answer.headers, body: read })
      }, reject)
    })
    onward.on('error', reject)
    onward.end(body)
  })
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
