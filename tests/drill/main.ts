// npm run drill: a backup and a restore of a whole installation under load (docs/backup.md).
import { parseArgs } from 'node:util'
import { drill } from './drill.ts'
import { startDrillRig } from './rig.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '20261123' }, events: { type: 'string', default: '60000' } },
})
const rig = await startDrillRig()
try {
  const { problems, seconds } = await drill(rig, {
    seed: Number(values.seed),
    events: Number(values.events),
    say: (line) => console.log(line),
  })
  console.log(JSON.stringify(seconds))
  for (const problem of problems) console.error(problem)
  console.log(problems.length === 0 ? 'Answers are equal, and no event is missing.' : 'The drill failed.')
  if (problems.length > 0) process.exitCode = 1
} finally {
  await rig.stop()
}
