import { AsyncLocalStorage } from 'node:async_hooks'
import { readBaggage } from '@sluice/sdk-core/baggage'
import type { Context, FetchRequest, NodeRequest } from './types.ts'

/**
 * Runs a function in the context in which this module was loaded. Otherwise each request to Sluice would run in the
 * context of the application's request that tracked an event or created the client: it would be in that trace, and keep
 * that request's memory. Node has no empty context, so an application that loads this module within a request uses the
 * context of that request for good.
 */
export const runOutsideRequest = AsyncLocalStorage.snapshot()

/** The context of the running code, which promises, timers and callbacks keep. */
export interface EventContext {
  context: () => Context
  withContext: <Result>(context: Context, fn: () => Result) => Result
  /** Runs `fn` with the ids from the request's header `baggage`. */
  ofRequest<Result>(request: NodeRequest | FetchRequest, fn: () => Result): Result
}

/** Creates a separate context: two clients in one process do not share it. */
export function eventContext(): EventContext {
  const storage = new AsyncLocalStorage<Context>()
  const context = (): Context => storage.getStore() ?? {}
  const withContext = <Result>(added: Context, fn: () => Result): Result => storage.run({ ...context(), ...added }, fn)
  return {
    context: () => ({ ...context() }),
    withContext,
    ofRequest: (request, fn) => withContext(readBaggage(baggageOf(request)), fn),
  }
}

function baggageOf({ headers }: NodeRequest | FetchRequest): string {
  const header =
    typeof headers.get === 'function' ? headers.get('baggage') : (headers as NodeRequest['headers']).baggage
  return typeof header === 'string' ? header : ''
}
