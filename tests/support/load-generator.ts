import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

export interface GeneratedLoad {
  /** Requests go to these in turn, `http://127.0.0.1:<port>`. */
  urls: readonly string[]
  /** The whole request number `n`, head and body. */
  requestFor: (n: number) => Buffer
  /**
   * Maximum number of open connections. A connection is opened when a request is due and all open ones wait for
   * answers.
   */
  connections: number
  /** One after the other, without a break. */
  stages: readonly LoadStage[]
  /** The number of the first request. */
  from: number
}

export interface LoadStage {
  /**
   * Requests per second, sent even if earlier ones are not answered, as by many independent clients. Infinity: each
   * connection sends its next request when it has got an answer.
   */
  perSecond: number
  seconds: number
}

export interface LoadAnswer {
  n: number
  status: number
  /** When the request was due, when it was sent and when it was answered, in ms since the load began. */
  dueAt: number
  sentAt: number
  answeredAt: number
}

export interface LoadReport {
  answers: LoadAnswer[]
  /**
   * Requests that came due while as many requests waited for a connection as there are connections. They were not sent.
   */
  unsent: number
  /** Connections that broke, or gave no answer in the end, while a request was under way. */
  broken: number
  /** The number after the last request. */
  to: number
}

const tickMs = 5
/** How long the last requests may wait for their answers. */
const answersTimeoutMs = 10_000

/**
 * Sends prepared requests over raw connections, because on two cores the time of a client library would dominate the
 * measurement. Keeps at most one request for each connection in memory, and the times of as many that wait.
 */
export async function generateLoad(load: GeneratedLoad): Promise<LoadReport> {
  const { urls, requestFor, connections, stages, from } = load
  const report: LoadReport = { answers: [], unsent: 0, broken: 0, to: from }
  const beganAt = performance.now()
  const now = (): number => performance.now() - beganAt
  const all = Array.from({ length: connections }, (_, index) => openConnection(urls[index % urls.length] ?? ''))
  const free = [...all]
  const due: number[] = []
  let isClosedLoop = false

  const sendNext = (connection: Connection): void => {
    const dueAt = isClosedLoop ? now() : due.shift()
    if (dueAt === undefined) {
      free.push(connection)
      return
    }
    const n = report.to++
    const request = requestFor(n)
    const sentAt = now()
    connection.send(request, (status) => {
      if (status === undefined) report.broken++
      else report.answers.push({ n, status, dueAt, sentAt, answeredAt: now() })
      sendNext(connection)
    })
  }

  let stageBeganAt = 0
  for (const { perSecond, seconds } of stages) {
    isClosedLoop = perSecond === Infinity
    let begun = 0
    for (let elapsedMs = 0; elapsedMs < seconds * 1000; elapsedMs = now() - stageBeganAt) {
      for (; !isClosedLoop && begun < (elapsedMs / 1000) * perSecond; begun++) {
        if (due.length >= connections) report.unsent++
        else due.push(stageBeganAt + (begun / perSecond) * 1000)
      }
      // The connection that was free last goes first, so that no more are open than the load needs.
      for (let count = isClosedLoop ? free.length : Math.min(free.length, due.length); count > 0; count--) {
        const connection = free.pop()
        if (connection) sendNext(connection)
      }
      await pause(tickMs)
    }
    stageBeganAt += seconds * 1000
  }
  isClosedLoop = false
  report.unsent += due.splice(0).length
  while (free.length < connections && now() < stageBeganAt + answersTimeoutMs) await pause(tickMs)
  report.broken += connections - free.length
  for (const connection of all) connection.close()
  return report
}

interface Connection {
  /** Calls back with the answer's status, or undefined when the connection broke. */
  send(request: Buffer, onAnswer: (status: number | undefined) => void): void
  close(): void
}

/** One HTTP/1.1 connection, which is opened when it is needed, and again after it broke. */
function openConnection(url: string): Connection {
  const port = Number(new URL(url).port)
  let socket: Socket | undefined
  let onAnswer: ((status: number | undefined) => void) | undefined
  let received: Buffer = Buffer.alloc(0)

  const answer = (status: number | undefined): void => {
    const callBack = onAnswer
    onAnswer = undefined
    received = Buffer.alloc(0)
    // Not called synchronously, because refused connections would recurse.
    if (callBack) setImmediate(callBack, status)
  }
  const open = (): Socket => {
    const opened = connect(port, '127.0.0.1')
    opened.setNoDelay(true)
    opened.on('data', (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
      const status = readStatus(received)
      if (status !== undefined) answer(status)
    })
    opened.on('error', () => undefined)
    opened.on('close', () => {
      socket = undefined
      answer(undefined)
    })
    return opened
  }
  return {
    send: (request, callBack) => {
      onAnswer = callBack
      socket ??= open()
      socket.write(request)
    },
    close: () => {
      onAnswer = undefined
      socket?.destroy()
    },
  }
}

/** The status of an answer that has come in whole; undefined before that. Sluice's answers have a Content-Length. */
function readStatus(answer: Buffer): number | undefined {
  const headEnd = answer.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = answer.toString('latin1', 0, headEnd)
  const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
  return answer.length >= headEnd + 4 + length ? Number(head.slice(9, 12)) : undefined
}
