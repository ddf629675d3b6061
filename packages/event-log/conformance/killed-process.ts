import { silentLogger } from '@sluice/runtime/silent-logger'
// A process that the conformance suite kills: it publishes or consumes, and reports every acknowledgement and commit.
import { openEventLog, type OpenEventLogOptions } from '../open-event-log.ts'
import { block, collect, nameOf } from './collect.ts'

const [url = '', task = '', group = '', options = '{}'] = process.argv.slice(2)
const report = (message: object) => process.send?.(message)

const log = await openEventLog(url, { ...(JSON.parse(options) as OpenEventLogOptions), logger: silentLogger })
const partitions = await log.partitions()

if (task === 'publish') {
  for (let number = 0; ; number++) {
    const name = String(number)
    await log.publish([block(number % partitions, name)], { timeoutMs: 10_000 })
    report({ acknowledged: name })
  }
}
if (task === 'hold') {
  // Takes one batch of each partition and commits it once the parent process sends a message.
  const orderToCommit = new Promise((resolve) => process.once('message', resolve))
  collect(log, group, {
    async onClaim(claim) {
      for await (const batch of claim.batches()) {
        report({ taken: String(claim.partition) })
        await orderToCommit
        const refusal = await claim.commit(batch).then(
          () => undefined,
          (error: unknown) => String(error),
        )
        report(refusal === undefined ? { committed: String(claim.partition) } : { refused: refusal })
        if (refusal !== undefined) return
      }
    },
  })
}
if (task === 'consume') {
  collect(log, group, {
    batchRowsMax: 1,
    async onClaim(claim) {
      for await (const batch of claim.batches()) {
        const names = batch.blocks.map(nameOf)
        if (batch.nextOffset > 2n) {
          // The handler gets the third block of each partition and never commits it.
          report({ abandoned: names[0] })
          await new Promise(() => undefined)
        }
        await claim.commit(batch)
        report({ committed: names[0] })
      }
    },
  })
}
