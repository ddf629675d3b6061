import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { waitUntil } from '@sluice/runtime/wait-until'

/** A session of WebDriver (https://www.w3.org/TR/webdriver2/), which the driver of WebKitGTK speaks. */
export interface WebDriverSession {
  /**
   * Sends a command below the path of the session; resolves with its value. Throws an Error with the driver's message.
   */
  send: (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) => Promise<unknown>
  /** The same to one window: commands go to the window that was chosen last, so that no other command comes between. */
  sendTo: (handle: string, ...command: Parameters<WebDriverSession['send']>) => Promise<unknown>
}

/** Opens a session at the address of a driver that may still be starting. */
export async function openWebDriverSession(driver: string, capabilities: object): Promise<WebDriverSession> {
  const request = async (method: string, path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${driver}${path}`, { method, ...(body && { body: JSON.stringify(body) }) })
    const { value } = (await response.json()) as { value: { error?: string; message?: string } | null }
    if (!response.ok) throw new Error(`${value?.error ?? response.status}: ${value?.message ?? ''}`)
    return value
  }
  const isListening = (): Promise<boolean> =>
    request('GET', '/status').then(
      () => true,
      () => false,
    )
  await waitUntil(isListening, 'the driver listens')
  const made = await request('POST', '/session', { capabilities: { alwaysMatch: capabilities } })
  const session = `/session/${(made as { sessionId: string }).sessionId}`
  const inTurn = concurrencyLimit(1)
  const send: WebDriverSession['send'] = (method, path, body) => request(method, `${session}${path}`, body)
  await send('POST', '/timeouts', { script: 120_000, pageLoad: 120_000 })
  return {
    send: (...command) => inTurn(() => send(...command)),
    sendTo: (handle, ...command) =>
      inTurn(async () => {
        await send('POST', '/window', { handle })
        return send(...command)
      }),
  }
}
