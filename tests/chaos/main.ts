// npm run chaos: the scenarios of docs/faults.md, one after the other, each on a rig of its own.
import { parseArgs } from 'node:util'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { runLedger } from '../sdk-node/ledger.ts'
import { kafkaMissing } from '../support/engines/kafka-files.ts'
import { redisMissing } from '../support/engines/redis.ts'
import { seaweedfsMissing } from '../support/engines/seaweedfs-files.ts'
import { haproxyMissing } from '../support/haproxy.ts'
import { createSpareKey } from './administration.ts'
import { waitForDrain } from './drain.ts'
import { exactlyOnce, fullFaults } from './exactly-once.ts'
import { jobs } from './jobs.ts'
import { type BlobPlace, startJobsRig } from './jobs-rig.ts'
import { kafkaAway } from './kafka-away.ts'
import { morePartitions } from './more-partitions.ts'
import { overload } from './overload.ts'
import { poison } from './poison.ts'
import { postgresAway } from './postgres-away.ts'
import { clonePreviousRelease } from './previous-release.ts'
import { redisAway } from './redis-away.ts'
import { type Rig, startRig } from './rig.ts'
import { rolling } from './rolling.ts'
import { rolledServices, startRollingRig } from './rolling-rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { type FaultCounts, faultKinds } from './schedule.ts'

const drainMsMax = 120_000

interface Options {
  seed: number
  events: number | undefined
  /** Duration of an outage or an overload. */
  seconds: number | undefined
  faults: FaultCounts
  /** Workers that are killed during each kind of job, or processes with the SDK. */
  kills: number
  blobs: BlobPlace
  /** How often each process is restarted; undefined: the default. */
  rolls: number | undefined
  /** Whether services are upgraded from the previous release to this one, and back. */
  previous: boolean
  /** Servers of ClickHouse, each with a shard of the events. */
  shards: number
}

/** A scenario on a rig of its own. */
interface Scenario {
  start(options: Options): Promise<StartedRig>
}

interface StartedRig {
  run(options: Options, say: Say): Promise<Outcome>
  /** The last output of its services. */
  outputs(): string[]
  stop(): Promise<void>
}

/** A scenario of a whole Sluice. */
function onRig(run: (rig: Rig, options: Options, say: Say) => Promise<Outcome>): Scenario {
  return {
    start: async ({ shards }) => {
      const rig = await startRig({ shards })
      return {
        run: (options, say) => run(rig, options, say),
        outputs: () => [...rig.gateways, ...rig.writers, rig.query].map((place) => place.output()),
        stop: () => rig.stop(),
      }
    },
  }
}

const killedWorkers: Scenario = {
  start: async ({ blobs }) => {
    const rig = await startJobsRig(blobs)
    return {
      run: ({ seed, events = 450_000, kills }, say) => jobs(rig, { seed, events, kills, say }),
      outputs: () => [rig.writer, rig.query].map((place) => place.output()),
      stop: () => rig.stop(),
    }
  },
}

const rolled: Scenario = {
  start: async ({ previous }) => {
    const release = previous ? clonePreviousRelease() : undefined
    const rig = await startRollingRig({ root: release?.root }).catch((error: unknown) => {
      release?.remove()
      throw error
    })
    return {
      run: ({ seed, rolls = previous ? 2 : 10 }, say) =>
        rolling(rig, { seed, rolls, previousRoot: release?.root, say }),
      outputs: () => rolledServices.flatMap((name) => rig.services[name].map((place) => place.output())),
      stop: async () => {
        await rig.stop()
        release?.remove()
      },
    }
  },
}

const scenarios = new Map<string, Scenario>([
  [
    'exactly-once',
    onRig((rig, { seed, events = 1_000_000, faults }, say) =>
      exactlyOnce(rig, { seed, events, faults, eventsPerSecond: 1_500, say }),
    ),
  ],
  [
    'kafka-away',
    onRig((rig, { seed, seconds = 150 }, say) =>
      kafkaAway(rig, { seed, clients: 32, batchEvents: 100, outageSeconds: seconds, refusalMsMax: 2_500, say }),
    ),
  ],
  ['poison', onRig((rig, { seed }, say) => poison(rig, { seed, events: 20_000, say }))],
  ['overload', onRig((rig, { seconds = 30 }, say) => overload(rig, { stageSeconds: seconds, say }))],
  [
    'postgres-away',
    onRig((rig, { seed, seconds = 300 }, say) =>
      postgresAway(rig, { seed, outageSeconds: seconds, revokedMsMax: 2_000, say }),
    ),
  ],
  ['redis-away', onRig((rig, { seed }, say) => redisAway(rig, { seed, say }))],
  ['more-partitions', onRig((rig, { seed, events = 100_000 }, say) => morePartitions(rig, { seed, events, say }))],
  ['jobs', killedWorkers],
  [
    'node-sdk',
    onRig(async (rig, { seed, kills }, say) => {
      const { key } = await createSpareKey(rig, { rate_limits: { events_per_minute: 10_000_000 } })
      const clickHouse = openClickHouse(rig.clickHouse.url)
      const drain = () => waitForDrain(rig, drainMsMax)
      const target = { gatewayUrl: rig.gateways[0].url, key, clickHouse, drain }
      return runLedger(target, { seed, site: 'ledger', kills, say }).finally(() => clickHouse.close())
    }),
  ],
  ['rolling', rolled],
])

const usage = `npm run chaos -- [scenario…] [--seed N] [--events N] [--seconds N] [--faults kind=count,…]
                 [--kills N] [--blobs file|s3] [--rolls N] [--previous] [--shards 1|2|4]

Scenarios: ${[...scenarios.keys()].join(', ')}; all of them when none is named.
--seed     decides events, faults and their order (1)
--events   of exactly-once (1000000), of more-partitions (100000), of the file of jobs (450000)
--seconds  of each of Kafka's outages (150), of Postgres's (300), of each overload (30)
--faults   of exactly-once instead of the full list: ${faultKinds.join(', ')}
--kills    workers that jobs kills during imports, exports and erasures each; processes that node-sdk kills (20)
--blobs    where the files of jobs are, file or s3 (file)
--rolls    how often rolling restarts each process (10; 2 with --previous)
--previous rolling upgrades from the previous release to this one, and goes back in every second round
--shards   servers of ClickHouse that exactly-once and more-partitions spread the events over (1)`

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
    events: values.events === undefined ? undefined : readCount('--events', values.events),
    seconds: values.seconds === undefined ? undefined : readCount('--seconds', values.seconds),
    faults: values.faults === undefined ? fullFaults : readFaults(values.faults),
    kills: readCount('--kills', values.kills),
    blobs: readPlace(values.blobs),
    rolls: values.rolls === undefined ? undefined : readCount('--rolls', values.rolls),
    previous: values.previous,
    shards: readShards(values.shards, named),
  }
  return {
    named,
    options,
    again: Object.entries(values)
      .flatMap(([name, value]) => (value === false ? [] : value === true ? [`--${name}`] : [`--${name}`, value]))
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
        events: { type: 'string' },
        seconds: { type: 'string' },
        faults: { type: 'string' },
        kills: { type: 'string', default: '20' },
        blobs: { type: 'string', default: 'file' },
        rolls: { type: 'string' },
        previous: { type: 'boolean', default: false },
        shards: { type: 'string', default: '1' },
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

const onShards = ['exactly-once', 'more-partitions']

function readShards(text: string, named: readonly [string, Scenario][]): number {
  if (!['1', '2', '4'].includes(text)) throw new UsageError(`--shards is 1, 2 or 4, not "${text}"`)
  if (text !== '1' && named.some(([name]) => !onShards.includes(name)))
    throw new UsageError(`--shards is for ${onShards.join(' and ')} only`)
  return Number(text)
}

function readPlace(text: string): BlobPlace {
  if (text === 'file' || text === 's3') return text
  throw new UsageError(`--blobs is file or s3, not "${text}"`)
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
  const starting = scenario.start(options)
  const end = (): void => {
    // A rig can't be stopped while it starts, which takes a few seconds.
    void starting.then((rig) => rig.stop()).finally(() => process.exit(130))
  }
  process.once('SIGINT', end).once('SIGTERM', end)
  const rig = await starting
  try {
    say('everything runs')
    const { figures, problems, details } = await rig.run(options, say)
    const passed = problems.length === 0
    console.log(JSON.stringify({ scenario: name, seed: options.seed, passed, ...figures, problems }, undefined, 2))
    for (const detail of details) console.error(JSON.stringify(detail, undefined, 2))
    if (!passed) console.error(`${name} failed: ${problems.join('; ')}\nAgain: npm run chaos -- ${name} ${again}`)
    return passed
  } catch (error) {
    for (const output of rig.outputs()) console.error(output.slice(-2_000))
    console.error(`${name} did not get to its end. Again: npm run chaos -- ${name} ${again}`)
    throw error
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end)
    await rig.stop()
  }
}

try {
  const { named, options, again } = readCommand(process.argv.slice(2))
  const missing =
    kafkaMissing() ??
    redisMissing() ??
    (options.blobs === 's3' ? seaweedfsMissing() : undefined) ??
    (named.some(([name]) => name === 'rolling') ? haproxyMissing() : undefined)
  if (missing !== undefined) throw new UsageError(missing)
  for (const each of named) if (!(await run(each, options, again))) process.exitCode = 1
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage}`)
  else console.error(error)
  process.exitCode = 1
}
// Without this, Node waits for requests on sockets that it has closed itself, sometimes for ever.
process.exit()
