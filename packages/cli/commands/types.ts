import { type Command, Option } from 'commander'
import { eventsLimits, type EventsResult } from '@sluice/contracts/events'
import { periods, statsLimits, type StatsResult } from '@sluice/contracts/stats'
import { analysisTimeoutMs } from '../client.ts'
import type { Context } from '../context.ts'
import { canaryType } from '../doctor/check-canary.ts'
import { describeTypes, writeEventTypes } from '../event-types.ts'
import { examples } from '../examples.ts'
import { Failure } from '../failure.ts'
import { openConnection } from '../open-connection.ts'
import { countOf } from '../output/format.ts'
import { openProgress } from '../output/progress.ts'
import { addConnectionOptions, addSiteOption, environmentOption, requireSite, type SiteOptions } from '../settings.ts'
import { writeOutput } from '../write-output.ts'

interface TypesOptions extends SiteOptions {
  period: string
  environment?: string
  out?: string
}

/** Adds the command `sluice types`, which writes a TypeScript type of a site's events. */
export function addTypes(program: Command, context: Context): void {
  const command = program
    .command('types')
    .summary('write a TypeScript type of the events')
    .description(
      'Writes "export interface Events", for the generic parameter of the SDKs: each event type of the site with its ' +
        `properties and their types, as the latest ${eventsLimits.limitMax.toLocaleString('en-US')} events of each type have them.`,
    )
  addSiteOption(command)
    .addOption(
      new Option('--period <period>', 'how far back events are read').choices(Object.keys(periods)).default('30d'),
    )
    .addOption(environmentOption())
    .option('-o, --out <file>', 'write to a file instead of standard output')
  addConnectionOptions(command)
    .addHelpText('after', examples([['sluice types --site shop --out src/events.ts', 'types for an application']]))
    .action((options: TypesOptions) => types(context, options))
}

async function types(context: Context, options: TypesOptions): Promise<void> {
  const { terminal } = context
  const { settings, client } = await openConnection(context, options)
  const query = { site_id: requireSite(settings), period: options.period, environment: options.environment }
  const counts = await client.request<StatsResult>('GET', '/api/v1/stats', {
    timeoutMs: analysisTimeoutMs,
    query: { ...query, metric: 'event_count_by_type', limit: statsLimits.groupsMax },
  })
  const names = (counts.data.breakdown ?? []).flatMap(({ key }) =>
    key === undefined || ['(other)', canaryType].includes(key) ? [] : [key],
  )
  if (names.length === 0) {
    throw new Failure(
      `${query.site_id} has no events in the last ${options.period}: send some, or give a longer --period.`,
    )
  }
  const progress = openProgress(terminal)
  const described = []
  for (const [at, name] of names.entries()) {
    progress.update(at, names.length, `Reading ${countOf(names.length, 'event type')}`)
    const filter = JSON.stringify([{ property: 'event_type', operator: 'equals', value: name }])
    const { data } = await client.request<EventsResult>('GET', '/api/v1/events', {
      timeoutMs: analysisTimeoutMs,
      query: { ...query, filter, limit: eventsLimits.limitMax },
    })
    described.push({ name, properties: describeTypes(data.events) })
  }
  progress.end()
  const source = writeEventTypes(query.site_id, described)
  if (options.out === undefined) {
    terminal.print(source.trimEnd())
    return
  }
  await writeOutput(options.out, source)
  terminal.note(`Wrote ${countOf(names.length, 'event type')} to ${options.out}.`)
}
