import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { describeWithInstallation } from '../support/describe-with-installation.ts'
import { runOneAtATime } from '../support/engines/test-engines.ts'
import { drill } from './drill.ts'
import { type DrillRig, startDrillRig } from './rig.ts'

runOneAtATime()

describeWithInstallation('backup and restore', () => {
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
})
