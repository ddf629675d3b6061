import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Opened, OpeningFailure, RequestKind, RequestMap, SqliteWorkerData, WorkerMessage } from './protocol.ts'

/** The worker thread that owns a log's SQLite file. */
export interface SqliteEngine {
  readonly opened: Opened
  /** Sends a request and detaches the buffers in `transfer`. Rejects when SQLite failed or the thread ended. */
  call<Kind extends RequestKind>(
    kind: Kind,
    request: RequestMap[Kind]['request'],
    transfer?: ArrayBuffer[],
  ): Promise<RequestMap[Kind]['response']>
  /** Resolves with the reason when the thread has ended. */
  readonly ended: Promise<Error>
  /** Ends the thread without closing the file, as in a crash. */
  terminate(): Promise<void>
}

interface Call {
  resolve: (response: RequestMap[RequestKind]['response']) => void
  reject: (error: Error) => void
}

/** Starts the thread and opens the file. Throws an Error, with what to do, when another process has locked the file. */
export async function startSqliteEngine(data: SqliteWorkerData): Promise<SqliteEngine> {
  const worker = new Worker(fileURLToPath(new URL('./worker.ts', import.meta.url)), {
    workerData: data,
    name: 'event-log',
  })
  const calls = new Map<number, Call>()
  let lastCall = 0
  let reason: Error | undefined
  const opened = Promise.withResolvers<Opened>()
  const ended = Promise.withResolvers<Error>()

  const end = (error: Error) => {
    reason ??= error
    opened.reject(reason)
    for (const call of calls.values()) call.reject(reason)
    calls.clear()
  }

  worker.on('message', (message: WorkerMessage) => {
    switch (message.kind) {
      case 'opened':
        opened.resolve(message.opened)
        return
      case 'failed':
        end(openingError(data.dir, message))
        return
      case 'answer':
        calls.get(message.call)?.resolve(message.response)
        calls.delete(message.call)
        return
      case 'refusal':
        calls.get(message.call)?.reject(new Error(message.error))
        calls.delete(message.call)
        return
    }
  })
  worker.on('error', (error) => {
    end(new Error('The thread of the event log failed', { cause: error }))
  })
  worker.on('exit', () => {
    end(new Error('The thread of the event log ended'))
    ended.resolve(reason ?? new Error('The thread of the event log ended'))
  })

  const engine: Omit<SqliteEngine, 'opened'> = {
    call: (kind, request, transfer = []) =>
      new Promise((resolve, reject) => {
        if (reason !== undefined) {
          reject(reason)
          return
        }
        lastCall++
        calls.set(lastCall, { resolve, reject })
        worker.postMessage({ call: lastCall, kind, ...request }, transfer)
      }),
    ended: ended.promise,
    async terminate() {
      await worker.terminate()
    },
  }
  return { ...engine, opened: await opened.promise }
}

function openingError(dir: string, { error, reason }: OpeningFailure): Error {
  if (reason === 'locked') {
    return new Error(
      `The event log in ${dir} is in use by another process. Stop that one, or point SLUICE_LOG_URL at another folder.`,
    )
  }
  const advice = reason === 'damaged' ? '. docs/backup.md (Standalone) says what to do with a damaged log.' : ''
  return new Error(`The event log in ${dir} (SLUICE_LOG_URL) can't be opened: ${error}${advice}`)
}
