import type { Mutation } from '../chaos/mutations.ts'

/** A line on which no request comes through, or none of the answers. */
export type Line = 'away' | 'answers-cut'

/** A bug that is put into the SDK, and what the ledger must show then. */
export interface SdkMutation extends Pick<Mutation, 'name' | 'edits'> {
  /** The line that shows it. */
  line: Line
  shows: 'lost' | 'twice'
}

const sender = 'packages/sdk-node/sender.ts'
const repeat =
  "case 'repeat':\n        queue.requeue(...(isPastLimit(answer, events.length) ? halves(events) : [events]))"
const post = 'const answer = await post('

/** In each event that is sent again, `from` is replaced. */
const rewrite = (from: string, to: string) =>
  `case 'repeat':
        for (const each of events) each.event = { ...each.event, json: each.event.json.replace(${from}, () => ${to}) }
        queue.requeue(events)`

export const sdkMutations: readonly SdkMutation[] = [
  {
    name: 'events are deleted when they are sent',
    edits: [
      { file: sender, from: post, to: `for (const each of events) onSettled(each)\n    ${post}` },
      { file: sender, from: repeat, to: "case 'repeat':" },
    ],
    line: 'away',
    shows: 'lost',
  },
  {
    name: 'a repetition has new ids',
    edits: [
      { file: sender, from: repeat, to: rewrite('/"event_id":"[^"]+"/', '`"event_id":"${crypto.randomUUID()}"`') },
    ],
    line: 'answers-cut',
    shows: 'twice',
  },
  {
    name: 'a repetition has a new time',
    edits: [{ file: sender, from: repeat, to: rewrite('/"timestamp":\\d+/', '`"timestamp":${Date.now()}`') }],
    line: 'answers-cut',
    shows: 'twice',
  },
  {
    name: 'the spool is removed before the 202',
    edits: [
      {
        file: 'packages/sdk-node/open-sluice.ts',
        from: 'queue.add(event, spool?.append(event))',
        to: `{
      const file = spool?.append(event)
      queue.add(event, undefined)
      if (file) spool?.done(file)
    }`,
      },
    ],
    line: 'away',
    shows: 'lost',
  },
]
