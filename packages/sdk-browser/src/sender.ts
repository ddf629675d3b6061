import { type Answer, backoffMs, isClockError, limitPauseMs, readAnswer } from '@sluice/sdk-core/read-answer'
import { attempt } from './attempt.ts'
import { gzip } from './gzip.ts'
import { type Entry, newEntry, type Queue } from './queue.ts'
import type { FlushResult, SluiceEvent } from './types.ts'

/** The browser limits the running `keepalive` requests of a page to 64 KiB together. */
const requestBytesMax = 60 * 1024
const flushEvents = 20
const flushIntervalMs = 5_000
/** A request without a response after this time has failed, and its events are sent again. */
const requestTimeoutMs = 30_000
const gzipBytesMin = 8 * 1024
/** Failures in a row after which a failure is reported. */
const failuresBeforeReport = 3
/** The longest pause that a response may ask for. */
const pauseMsMax = 600_000
const correctionMsMax = 7 * 24 * 3_600_000

export interface SenderDeps {
  /** The address of /collect/batch with the key. */
  endpoint: string
  queue: Queue
  /** Whether the visitor consents now; call `notice` when it becomes true. */
  isAllowed: () => boolean
  report: (message: string, event?: SluiceEvent) => void
  /** Called after each response with Sluice's time and the device's time at which the request began (Unix ms). */
  onTime: (serverNow: number, began: number) => void
  /** Called when events have left the queue. */
  onRoom: () => void
}

export interface Sender {
  /** Called after an event was queued: 20 events are sent at once, fewer after 5 s. */
  notice: () => void
  /** Sends the queued events, without waiting for the end of a backoff. */
  flush: () => Promise<FlushResult>
  /** Sends at once as many events as a page may send when it ends. */
  leave: () => void
  stop: () => void
}

/** A sender that sends nothing until it is told to. */
export function createSender({ endpoint, queue, isAllowed, report, onTime, onRoom }: SenderDeps): Sender {
  let timer: ReturnType<typeof setTimeout> | undefined
  let running: Promise<void> | undefined
  /** The requests of `leave`. */
  let leaving: Promise<unknown> | undefined
  let isStopped = false
  /** No request is sent before this time of performance.now(), which a change of the device's clock does not affect. */
  let pausedUntil = 0
  let failures = 0
  /** Maximum number of events in a request, lowered when a request was too large. */
  let countMax = Infinity
  let bytesUnderWay = 0

  const isHeld = (): boolean => isStopped || !isAllowed()
  const isPaused = (): boolean => isHeld() || performance.now() < pausedUntil
  const pause = (ms: number): void => {
    pausedUntil = Math.max(pausedUntil, performance.now() + Math.min(ms, pauseMsMax))
  }

  /** The oldest events, with `isAll` also those in a running request, up to the limits of a request. */
  const take = (isAll?: boolean): Entry[] => {
    let room = requestBytesMax - bytesUnderWay
    let count = isPaused() ? 0 : countMax
    return queue.list.filter(({ isBusy, bytes }) => (!isBusy || isAll) && count-- > 0 && (room -= bytes + 1) > 0)
  }

  /** Handles a refused event: if its time was refused, it is corrected and sent once more. Others are dropped. */
  const refuse = async (entry: Entry, error: string, serverNow: number): Promise<void> => {
    const event = JSON.parse(entry.text) as SluiceEvent
    if (entry.isFixed || !isClockError(error)) {
      queue.remove([entry], 'rejected')
      report(error, event)
      return
    }
    const corrected = entry.timestamp + serverNow - Date.now()
    // If the device's clock was changed since the event, the difference does not apply to it.
    const isLikely = corrected < serverNow && corrected > serverNow - correctionMsMax
    const timestamp = isLikely ? corrected : serverNow
    await queue.swap(entry, newEntry(JSON.stringify({ ...event, timestamp }), true))
  }

  /** Handles the response. Resolves with whether the next request may be sent at once. */
  const settle = async (batch: readonly Entry[], answer: Answer, serverNow: number): Promise<boolean> => {
    const step = readAnswer(answer, batch.length)
    if (step.next === 'split') countMax = Math.ceil(batch.length / 2)
    else if (step.next === 'done') {
      failures = 0
      countMax = Infinity
      const stored = new Set(batch)
      for (const [index, error] of step.refused) {
        const entry = batch[index]
        if (entry && stored.delete(entry)) await refuse(entry, error, serverNow)
      }
      if (!step.more) queue.remove(stored, 'sent')
      onRoom()
      pause(limitPauseMs(answer, take().length || 1, serverNow))
    } else {
      isStopped = step.next === 'stop'
      pause(step.afterMs)
      if (++failures === failuresBeforeReport || isStopped) {
        report(`events wait: ${step.error}`)
      }
      return false
    }
    return true
  }

  const post = async (batch: readonly Entry[], body: string | Blob): Promise<boolean> => {
    const size = new Blob([body]).size
    for (const entry of batch) entry.isBusy = true
    bytesUnderWay += size
    const began = Date.now()
    const answer: Answer = { status: 0 }
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        // text/plain needs no CORS preflight. Sluice recognises gzip by the first bytes of the body.
        headers: { 'Content-Type': 'text/plain' },
        body,
        credentials: 'omit',
        keepalive: true,
        signal: AbortSignal.timeout(requestTimeoutMs),
      })
      answer.status = response.status
      answer.headers = response.headers
      answer.body = (await response.json()) as NonNullable<Answer['body']>
    } catch {
      // Without a complete response, `answer` has the part that arrived.
    }
    bytesUnderWay -= size
    if (isStopped) return false
    const serverNow = Number(answer.body?.timestamp)
    if (serverNow) onTime(serverNow, began)
    const mayGoOn = await settle(batch, answer, serverNow)
    for (const entry of batch) entry.isBusy = false
    return mayGoOn
  }

  const bodyOf = (batch: readonly Entry[]): string => `{"events":[${batch.map(({ text }) => text).join()}]}`

  /** Sends the events that are queued now, and continues while there is a full batch. */
  const run = async (): Promise<void> => {
    const seen = [...queue.list]
    let mayGoOn = true
    while (mayGoOn && (queue.list.length >= flushEvents || seen.some(({ end }) => !end))) {
      const batch = take()
      const text = bodyOf(batch)
      const body = text.length > gzipBytesMin ? await (attempt(() => gzip(text)) ?? text) : text
      // During the compression, the visitor may have denied consent.
      mayGoOn = batch.length > 0 && !isPaused() && (await post(batch, body))
    }
  }

  const send = (): Promise<void> =>
    (running ??= run().finally(() => {
      running = undefined
      goOn()
    }))

  /** Schedules the sending of the remaining events, unless the end of a running request will do it. */
  const goOn = (): void => {
    clearTimeout(timer)
    timer =
      bytesUnderWay || isHeld() || !queue.list.length
        ? undefined
        : setTimeout(
            send,
            (failures ? backoffMs(failures - 1) : flushIntervalMs) + Math.max(0, pausedUntil - performance.now()),
          )
  }

  return {
    notice: () => {
      if (!timer) goOn()
      if (!failures && queue.list.length >= flushEvents) void send()
    },
    flush: async () => {
      const seen = [...queue.list]
      const flushed = { sent: 0, pending: 0, rejected: 0 }
      await running
      await leaving
      await send()
      for (const { end = 'pending' } of seen) flushed[end]++
      return flushed
    },
    leave: () => {
      const isKept = 'keepalive' in Request.prototype
      // A request that is not kept alive ends with the page, perhaps before it has arrived.
      const batch = take(!isKept)
      if (!batch.length) return
      const text = bodyOf(batch)
      const former = leaving
      if (isKept)
        leaving = post(batch, text)
          .then(goOn)
          .then(() => former)
      // The result of a beacon is unknown: its events stay in the queue.
      else navigator.sendBeacon(endpoint, text)
    },
    stop: () => {
      isStopped = true
    },
  }
}
