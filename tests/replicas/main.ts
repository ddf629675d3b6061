// npm run replica-model: looks for schedules with which writers of ClickHouse replicas would lose or double an event.
import { parseArgs } from 'node:util'
import { corrected, designed, type Protocol } from './protocol.ts'
import { search } from './search.ts'

const usage = `npm run replica-model -- [--runs N] [--seed N] [--without PART] [--designed]

--runs      schedules to try (100000)
--seed      decides what they are (1)
--without   a part of the protocol that is taken out, as tests/replicas/protocol.ts names it; may be repeated
--designed  the protocol as it was designed at first`

class UsageError extends Error {}

interface Command {
  runs: number
  seed: number
  protocol: Protocol
}

function readCommand(args: string[]): Command {
  const { values } = parseArgs({
    args,
    options: {
      runs: { type: 'string', default: '100000' },
      seed: { type: 'string', default: '1' },
      without: { type: 'string', multiple: true, default: [] },
      designed: { type: 'boolean', default: false },
    },
  })
  let protocol = values.designed ? designed : corrected
  for (const part of values.without) {
    if (!(part in protocol)) throw new UsageError(`the protocol has no part "${part}"`)
    protocol = { ...protocol, [part]: false }
  }
  return { runs: readCount(values.runs), seed: readCount(values.seed), protocol }
}

function readCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`"${text}" is no count`)
  return Number(text)
}

try {
  const { runs, seed, protocol } = readCommand(process.argv.slice(2))
  const started = performance.now()
  const findings = search(protocol, { runs, seed })
  const seconds = (performance.now() - started) / 1000
  if (findings.counterexample !== undefined) {
    console.log(findings.counterexample)
    console.log(`\nFound in run ${findings.runs} with the seed ${seed}.`)
    process.exitCode = 1
  } else {
    console.log(
      `${findings.runs} runs in ${seconds.toFixed(1)} s with the seed ${seed}: nothing lost, nothing doubled.`,
    )
    for (const [occurrence, count] of [...findings.runsWith].sort((a, b) => b[1] - a[1])) {
      console.log(`${String(count).padStart(8)} runs with: ${occurrence}`)
    }
  }
} catch (error) {
  if (!(error instanceof UsageError) && !(error instanceof TypeError)) throw error
  console.error(`${error.message}\n\n${usage}`)
  process.exitCode = 2
}
