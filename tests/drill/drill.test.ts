import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { kafkaMissing } from '../support/engines/kafka-files.ts'
import { postgresPrograms } from '../support/engines/postgres-programs.ts'
import { redisMissing } from '../support/engines/redis.ts'
import { drill } from './drill.ts'
import { type DrillRig, startDrillRig } from './rig.ts'

const isComplete = kafkaMissing() === undefined && redisMissing() === undefined && postgresPrograms() !== undefined

;(isComplete ? describe : describe.skip)(
  'backup and restore (needs Kafka, Redis and the PostgreSQL of the machine)',
  () => {
    let rig: DrillRig

    beforeAll(async () => {
      rig = await startDrillRig()
    })

    afterAll(async () => {
      await rig.stop()
    })

    test('a destroyed installation answers as before, without the person who was erased and the key that was revoked', async () => {
      const { problems } = await drill(rig, { seed: 18, events: 1_500, say: () => undefined })
      expect(problems).toStrictEqual([])
    })
  },
)
