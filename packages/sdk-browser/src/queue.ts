import { attempt } from './attempt.ts'
import type { SluiceEvent } from './types.ts'

/** An event that waits to be sent. */
export interface Entry {
  /** The event as JSON, the same in each attempt to send it. */
  text: string
  /** Its time (Unix ms) and id, which identify it. */
  name: string
  timestamp: number
  /** Its size in UTF-8. */
  bytes: number
  /** Whether the time is final: given by the page, or corrected once. */
  isFixed: boolean
  /** Whether a request with the event is under way. */
  isBusy?: boolean
  /** How the event has left the queue. */
  end?: 'sent' | 'rejected'
}

/**
 * Storage that keeps the queue after the page has ended: values by name. After a failure the queue is kept in memory.
 */
export interface Store {
  save: (name: string, value: string) => void
  remove: (name: string) => void
  /** Replaces a value, under a new name. 0: another tab has replaced or removed it. */
  swap: (name: string, next: string, value: string) => unknown
  /** Up to `count` values that earlier pages have stored, the oldest first. */
  load: (count: number) => readonly string[] | Promise<readonly string[] | undefined>
}

/** The entry of an event's JSON text. */
export function newEntry(text: string, isFixed: boolean): Entry {
  const { timestamp, event_id } = JSON.parse(text) as { timestamp: number; event_id: string }
  return { text, name: `${timestamp}:${event_id}`, timestamp, bytes: new Blob([text]).size, isFixed }
}

const entriesMax = 1_000
const bytesMax = 1024 * 1024

export interface Queue {
  list: Entry[]
  /** Adds an event; drops the oldest events beyond the limits. */
  add: (entry: Entry) => void
  remove: (entries: Iterable<Entry>, end: 'sent' | 'rejected') => void
  /** Replaces an event whose time was refused with `next`, unless another tab has replaced it. */
  swap: (entry: Entry, next: Entry) => Promise<void>
  /** Loads the events that earlier pages have stored. */
  load: () => Promise<void>
}

/** The events in the order in which they are sent. `onDrop` is called for each event that the limits drop. */
export function openQueue(store: Store | undefined, onDrop: (event: SluiceEvent) => void): Queue {
  const valueOf = ({ isFixed, text }: Entry): string => `${+isFixed}${text}`
  const queue: Queue = {
    list: [],
    add: (entry) => {
      queue.list.push(entry)
      store?.save(entry.name, valueOf(entry))
      while (queue.list.length > entriesMax || queue.list.reduce((sum, { bytes }) => sum + bytes, 0) > bytesMax) {
        // An event in a running request may be stored already, so another one is dropped and counted as lost.
        const oldest = queue.list.find(({ isBusy }) => !isBusy) ?? entry
        queue.remove([oldest], 'rejected')
        onDrop(JSON.parse(oldest.text) as SluiceEvent)
      }
    },
    remove: (entries, end) => {
      for (const entry of entries) {
        entry.end = end
        store?.remove(entry.name)
      }
      queue.list = queue.list.filter((entry) => !entry.end)
    },
    swap: async (entry, next) => {
      if ((await store?.swap(entry.name, next.name, valueOf(next))) !== 0) Object.assign(entry, next)
      else queue.list = queue.list.filter((each) => each !== entry)
    },
    load: async () => {
      const values = (await store?.load(entriesMax)) ?? []
      // Other code of the page may have written to the storage: invalid values are ignored.
      const loaded = values.flatMap((value) => attempt(() => newEntry(value.slice(1), value.startsWith('1'))) ?? [])
      queue.list.unshift(...loaded)
    },
  }
  return queue
}
