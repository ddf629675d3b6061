import { unavailable } from '@sluice/contracts/errors'
import { Gauge, type Metrics } from '@sluice/runtime/metrics'

/** Who may run, and when: each holder so many at once, all together so many, and whoever waits is let in in turn. */
export interface Turns {
  /**
   * Carries `call` out when it is the holder's turn, and gives its place free when it has ended; `rank` is how many of
   * the holder's run then, itself included. Throws SluiceError 503 when more of the holder's wait than may, when it
   * waited too long, and when `signal` is aborted before its turn.
   */
  run<T>(holder: string, signal: AbortSignal, call: (rank: number) => Promise<T>): Promise<T>
}

export interface TurnLimits {
  atOnce: number
  atOncePerHolder: number
  waitingPerHolder: number
  waitMs: number
}

interface Holder {
  running: number
  /** The number of its last turn; 0 before the first. */
  lastTurn: number
  /** First come, first served. */
  waiting: Set<() => void>
}

export function createTurns(limits: TurnLimits, metrics?: Metrics): Turns {
  /** Those that have something running or waiting. */
  const holders = new Map<string, Holder>()
  let running = 0
  let turn = 0

  new Gauge({
    name: 'sluice_query_questions',
    help: 'Questions to ClickHouse, running and waiting for their turn.',
    labelNames: ['state'],
    registers: metrics ? [metrics] : [],
    collect() {
      this.set({ state: 'running' }, running)
      this.set({ state: 'waiting' }, sum([...holders.values()].map(({ waiting }) => waiting.size)))
    },
  })

  function begin(holder: Holder): void {
    holder.running++
    running++
    holder.lastTurn = ++turn
  }

  function end(name: string, holder: Holder): void {
    holder.running--
    running--
    letIn()
    forgetIdle(name, holder)
  }

  function forgetIdle(name: string, { running: itsRunning, waiting }: Holder): void {
    if (itsRunning === 0 && waiting.size === 0) holders.delete(name)
  }

  /** Lets in whom there is room for: who has least running, and of those who was let in longest ago. */
  function letIn(): void {
    while (running < limits.atOnce) {
      let first: Holder | undefined
      for (const holder of holders.values()) {
        if (holder.waiting.size === 0 || holder.running >= limits.atOncePerHolder) continue
        if (first === undefined || comesBefore(holder, first)) first = holder
      }
      const [next] = first?.waiting ?? []
      if (first === undefined || next === undefined) return
      first.waiting.delete(next)
      begin(first)
      next()
    }
  }

  /** Resolves when it is its turn, with its place taken. */
  function wait(name: string, holder: Holder, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', leave)
      }
      const go = (): void => {
        settle()
        resolve()
      }
      const giveUp = (reason: string): void => {
        settle()
        holder.waiting.delete(go)
        forgetIdle(name, holder)
        reject(unavailable(reason))
      }
      const leave = (): void => {
        giveUp('the client left before its question was asked')
      }
      const timer = setTimeout(giveUp, limits.waitMs, 'the question waited too long for its turn')
      signal.addEventListener('abort', leave)
      holder.waiting.add(go)
    })
  }

  return {
    run: async (name, signal, call) => {
      const holder = holders.get(name) ?? { running: 0, lastTurn: 0, waiting: new Set<() => void>() }
      const isFree = running < limits.atOnce && holder.running < limits.atOncePerHolder && holder.waiting.size === 0
      if (holder.waiting.size >= limits.waitingPerHolder) throw unavailable('too many questions of the key wait')
      holders.set(name, holder)
      if (isFree) begin(holder)
      else await wait(name, holder, signal)
      try {
        return await call(holder.running)
      } finally {
        end(name, holder)
      }
    },
  }
}

function comesBefore(one: Holder, other: Holder): boolean {
  return one.running === other.running ? one.lastTurn < other.lastTurn : one.running < other.running
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0)
}
