// npm run chaos: the scenarios of docs/faults.md, one after the other, each on a rig of its own.
import { parseArgs } from 'node:util'
import { kafkaMissing } from '../support/engines/kafka-files.ts'
import { redisMissing } from '../support/engines/redis.ts'
import { exactlyOnce, fullFaults } from './exactly-once.ts'
import { kafkaAway } from './kafka-away.ts'
import { overload } from './overload.ts'
import { poison } from './poison.ts'
import { postgresAway } from './postgres-away.ts'
import { redisAway } from './redis-away.ts'
import { type Rig, startRig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { type FaultCounts, faultKinds } from './schedule.ts'

interface Options {
  seed: number
  events: number
  /** Duration of an outage or an overload. */
  seconds: number | undefined
  faults: FaultCounts
}

type Scenario = (rig: Rig, options: Options, say: Say) => Promise<Outcome>

const scenarios = new Map<string, Scenario>([
  [
    'exactly-once',
    (rig, { seed, events, faults }, say) => exactlyOnce(rig, { seed, events, faults, eventsPerSecond: 1_500, say }),
  ],
  [
    'kafka-away',
    (rig, { seed, seconds = 150 }, say) => kafkaAway(rig, { seed, outageSeconds: seconds, refusalMsMax: 2_500, say }),
  ],
  ['poison', (rig, { seed }, say) => poison(rig, { seed, events: 20_000, say })],
  ['overload', (rig, { seconds = 30 }, say) => overload(rig, { stageSeconds: seconds, say })],
  [
    'postgres-away',
    (rig, { seed, seconds = 300 }, say) =>
      postgresAway(rig, { seed, outageSeconds: seconds, revokedMsMax: 2_000, say }),
  ],
  ['redis-away', (rig, { seed }, say) => redisAway(rig, { seed, say })],
])

const usage = `npm run chaos -- [scenario…] [--seed N] [--events N] [--seconds N] [--faults kind=count,…]

Scenarios: ${[...scenarios.keys()].join(', ')}; all of them when none is named.
--seed     decides events, faults and their order (1)
--events   of exactly-once (1000000)
--seconds  of each of Kafka's outages (150), of Postgres's (300), of each overload (30)
--faults   of exactly-once instead of the full list: ${faultKinds.join(', ')}`

class UsageError extends Error {}

function readCommand(args: string[]): { named: [string, Scenario][]; options: Options; again: string } {
  const { values, positionals } = parse(args)
  const named = (positionals.length > 0 ? positionals : [...scenarios.keys()]).map((name): [string, Scenario] => {
    const scenario = scenarios.get(name)
    if (!scenario) throw new UsageError(`there is no scenario "${name}"`)
    return [name, scenario]
  })
  const options = {
    seed: readCount('--seed', values.seed),
    events: readCount('--events', values.events),
    seconds: values.seconds === undefined ? undefined : readCount('--seconds', values.seconds),
    faults: values.faults === undefined ? fullFaults : readFaults(values.faults),
  }
  return {
    named,
    options,
    again: Object.entries(values)
      .flatMap(([name, value]) => [`--${name}`, value])
      .join(' '),
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        seed: { type: 'string', default: '1' },
        events: { type: 'string', default: '1000000' },
        seconds: { type: 'string' },
        faults: { type: 'string' },
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function readCount(name: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`${name} is a number from 1 on, not "${text}"`)
  return Number(text)
}

function readFaults(text: string): FaultCounts {
  return Object.fromEntries(
    text.split(',').map((item) => {
      const [name = '', count = '1'] = item.split('=')
      const kind = faultKinds.find((known) => known === name)
      if (kind === undefined) throw new UsageError(`--faults: there is no fault "${name}"`)
      return [kind, readCount(`--faults ${name}`, count)]
    }),
  )
}

/** Prints a scenario's figures as JSON; problems, and the command that repeats the run, go to standard error. */
async function run([name, scenario]: [string, Scenario], options: Options, again: string): Promise<boolean> {
  const beganAt = Date.now()
  const say: Say = (line) => {
    console.error(`${((Date.now() - beganAt) / 1000).toFixed(1).padStart(7)} s  ${name}: ${line}`)
  }
  const starting = startRig()
  const end = (): void => {
    // A rig can't be stopped while it starts, which takes a few seconds.
    void starting.then((rig) => rig.stop()).finally(() => process.exit(130))
  }
  process.once('SIGINT', end).once('SIGTERM', end)
  const rig = await starting
  try {
    say('everything runs')
    const { figures, problems, details } = await scenario(rig, options, say)
    const passed = problems.length === 0
    console.log(JSON.stringify({ scenario: name, seed: options.seed, passed, ...figures, problems }, undefined, 2))
    for (const detail of details) console.error(JSON.stringify(detail, undefined, 2))
    if (!passed) console.error(`${name} failed: ${problems.join('; ')}\nAgain: npm run chaos -- ${name} ${again}`)
    return passed
  } catch (error) {
    for (const place of [...rig.gateways, ...rig.writers, rig.query]) console.error(place.output().slice(-2_000))
    console.error(`${name} did not get to its end. Again: npm run chaos -- ${name} ${again}`)
    throw error
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end)
    await rig.stop()
  }
}

try {
  const { named, options, again } = readCommand(process.argv.slice(2))
  const missing = kafkaMissing() ?? redisMissing()
  if (missing !== undefined) throw new UsageError(missing)
  for (const each of named) if (!(await run(each, options, again))) process.exitCode = 1
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage}`)
  else console.error(error)
  process.exitCode = 1
}
