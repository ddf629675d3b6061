/** A session of WebDriver BiDi (https://w3c.github.io/webdriver-bidi/), which Firefox speaks itself. */
export interface BidiSession {
  /**
   * Sends a command; resolves with its result. Throws an Error with the browser's message, and when the connection
   * ends.
   */
  send: (method: string, parameters: object) => Promise<unknown>
  close: () => void
}

interface Answer {
  id: number | null
  type: 'success' | 'error' | 'event'
  result?: unknown
  error?: string
  message?: string
}

/** Opens a session at `url`, `ws://127.0.0.1:<port>/session`. */
export async function openBidiSession(url: string): Promise<BidiSession> {
  const socket = new WebSocket(url)
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let commands = 0
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', () => {
      reject(new Error(`${url} does not answer`))
    })
  })
  socket.addEventListener('message', ({ data }) => {
    const { id, type, result, error, message } = JSON.parse(String(data)) as Answer
    const command = id === null ? undefined : waiting.get(id)
    if (id === null || command === undefined) return
    waiting.delete(id)
    if (type === 'success') command.resolve(result)
    else command.reject(new Error(`${error ?? 'error'}: ${message ?? ''}`))
  })
  socket.addEventListener('close', () => {
    for (const command of waiting.values()) command.reject(new Error('the connection to the browser has ended'))
    waiting.clear()
  })
  const send = (method: string, parameters: object): Promise<unknown> => {
    if (socket.readyState !== WebSocket.OPEN)
      return Promise.reject(new Error('the connection to the browser has ended'))
    const command = Promise.withResolvers<unknown>()
    const id = ++commands
    waiting.set(id, command)
    socket.send(JSON.stringify({ id, method, params: parameters }))
    return command.promise
  }
  await send('session.new', { capabilities: {} })
  return {
    send,
    close: () => socket.close(),
  }
}
