import type { Mutation } from '../chaos/mutations.ts'
import type { Round } from './ledger.ts'

/** A mistake that other SDKs have made, put into this one, and what the ledger must show then. */
export interface SdkMutation extends Pick<Mutation, 'name' | 'edits'> {
  /** The rounds that show it. */
  rounds: readonly Round[]
  shows: 'lost' | 'twice'
}

const sender = 'packages/sdk-browser/src/sender.ts'

export const sdkMutations: readonly SdkMutation[] = [
  {
    name: 'an event is removed when it is sent',
    edits: [
      {
        file: sender,
        from: 'bytesUnderWay += size\n',
        to: "bytesUnderWay += size\n    queue.remove(batch, 'sent')\n",
      },
    ],
    rounds: [{ fault: 'close-tabs', network: 'cut-before' }],
    shows: 'lost',
  },
  {
    name: 'a repetition has a new time',
    edits: [
      {
        file: sender,
        from: '.map(({ text }) => text)',
        to: '.map(({ text }) => JSON.stringify({ ...(JSON.parse(text) as object), timestamp: Date.now() }))',
      },
    ],
    rounds: [{ fault: 'close-tabs', network: 'cut-after' }],
    shows: 'twice',
  },
  {
    name: 'a repetition has a new id',
    edits: [
      {
        file: sender,
        from: '.map(({ text }) => text)',
        to: '.map(({ text }) => JSON.stringify({ ...(JSON.parse(text) as object), event_id: crypto.randomUUID() }))',
      },
    ],
    rounds: [{ fault: 'close-tabs', network: 'cut-after' }],
    shows: 'lost',
  },
  {
    name: 'a beacon that was queued counts as an answer',
    edits: [
      {
        file: sender,
        from: 'else navigator.sendBeacon(endpoint, text)',
        to: "else if (navigator.sendBeacon(endpoint, text)) queue.remove(batch, 'sent')",
      },
    ],
    rounds: [{ fault: 'beacons', network: 'cut-before' }],
    shows: 'lost',
  },
  {
    name: 'a request that outlives its page counts as an answer',
    edits: [
      {
        file: sender,
        from: 'leaving = post(batch, text)',
        to: "leaving = (queue.remove(batch, 'sent'), post(batch, text))",
      },
    ],
    rounds: [{ fault: 'hide-tabs', network: 'cut-before' }],
    shows: 'lost',
  },
  {
    name: 'tabs correct the time of an event each for itself',
    edits: [{ file: 'packages/sdk-browser/src/device-store.ts', from: 'if (!request.result) return\n', to: '' }],
    rounds: [
      { fault: 'clock-ahead', network: 'cut-before' },
      { fault: 'five-tabs', network: 'together' },
    ],
    shows: 'twice',
  },
]
