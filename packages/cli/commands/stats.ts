import { Argument, type Command, Option } from 'commander'
import { Temporal } from 'temporal-polyfill'
import { defaultConversionEvent, type SiteResource } from '@sluice/contracts/sites'
import {
  type BreakdownEntry,
  comparisons,
  groupFields,
  isSessionMetric,
  type Metric,
  metrics,
  periods,
  statsLimits,
  type StatsResult,
  timeUnits,
} from '@sluice/contracts/stats'
import { analysisTimeoutMs, type Client } from '../client.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { usageFailure } from '../failure.ts'
import { openConnection } from '../open-connection.ts'
import { type ComparedValue, comparedValues } from '../output/compared-values.ts'
import { csvLine } from '../output/csv.ts'
import { formatTime } from '../output/format.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import { type TableColumn, tableLines } from '../output/table.ts'
import { parseCount, parseFilter, parseRangeTime, parseText, type RangeTime, toUnixMs } from '../parse-options.ts'
import { addConnectionOptions, addSiteOption, environmentOption, requireSite, type SiteOptions } from '../settings.ts'

interface StatsOptions extends SiteOptions {
  period?: string
  start?: RangeTime
  end?: RangeTime
  groupBy?: string
  eventType?: string
  country?: string
  device?: string
  filter?: string
  target?: string
  timezone?: string
  compare?: string
  environment?: string
  limit?: number
  exact?: boolean
  json?: boolean
  csv?: boolean
}

/** Adds the command `sluice stats`, which prints a metric. */
export function addStats(program: Command, context: Context): void {
  const command = program
    .command('stats')
    .summary('print a metric')
    .description(
      'Prints a metric of a site: its value over the whole range, and with --group-by its breakdown. Times are in the time ' +
        'zone of the site, unless --timezone names another; so are those of --start and --end that have no offset.',
    )
    .addArgument(new Argument('[metric]', 'what is measured').choices(metrics).default('event_count'))
  addSiteOption(command)
    .addOption(
      new Option('--period <period>', 'the time until now, or until --end (default: 24h)')
        .choices(Object.keys(periods))
        // The server ignores the period of a range with a start.
        .conflicts('start'),
    )
    .option('--start <time>', 'start of the range, Unix ms or ISO 8601', parseRangeTime)
    .option('--end <time>', 'end of the range, which is not included (default: now)', parseRangeTime)
    .option(
      '-g, --group-by <what>',
      `${timeUnits.join(', ')}, ${groupFields.join(', ')} or properties.<name>`,
      parseText,
    )
    .option('--event-type <type>', 'only events of this type', parseText)
    .option('--country <code>', 'only this country', parseText)
    .option('--device <type>', 'only this device_type', parseText)
    .option('--filter <conditions>', 'only what meets a JSON list of conditions', parseFilter)
    .option(
      '--target <type>',
      'the event type that conversion_rate counts (default: that of the site, or purchase)',
      parseText,
    )
    .option('--timezone <name>', 'time zone, e.g. Europe/Berlin (default: that of the site)', parseText)
    .addOption(new Option('--compare <range>', 'compare with another range').choices(comparisons))
    .addOption(environmentOption())
    .option('--limit <n>', 'how many groups are listed (default: 100)', parseCount(1, statsLimits.groupsMax))
    .option('--exact', 'exact numbers, never estimates')
    .addOption(new Option('--json', 'print the answer as JSON').conflicts('csv'))
    .option('--csv', 'print the breakdown as CSV')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice stats visitors --site shop --period 7d --group-by day', 'visitors by day'],
        ['sluice stats event_count --site shop -g properties.plan --csv', 'events by a property, as CSV'],
        ['sluice stats bounce_rate --site shop --start 2026-01-01 --end 2026-02-01', 'one number for a month'],
      ]),
    )
    .action((metric: string, options: StatsOptions) => stats(context, metric, options))
}

async function stats({ terminal, ...context }: Context, metric: string, options: StatsOptions): Promise<void> {
  const { settings, client } = await openConnection({ ...context, terminal }, options)
  const siteId = requireSite(settings)
  const range = await rangeOf(client, siteId, options)
  const { data } = await client.request<StatsResult>('GET', '/api/v1/stats', {
    timeoutMs: analysisTimeoutMs,
    query: {
      site_id: siteId,
      metric,
      period: options.period,
      ...range,
      group_by: options.groupBy,
      event_type: options.eventType,
      country: options.country,
      device_type: options.device,
      filter: options.filter,
      target_event: options.target,
      timezone: options.timezone,
      compare: options.compare,
      environment: options.environment,
      limit: options.limit,
      exact: options.exact,
    },
  })
  if (options.json) {
    terminal.print(safeJson(data, 2))
    return
  }
  const limit = options.limit ?? statsLimits.groupsDefault
  const before = comparedValues(data, { comparison: options.compare, limit })
  if (options.csv) {
    for (const line of csvOf(data, before)) terminal.print(line)
    return
  }
  const target =
    data.metric === 'conversion_rate' ? (options.target ?? (await targetOf(client, data.site_id))) : undefined
  for (const line of summaryOf(data, target)) terminal.print(line)
  if (data.breakdown === undefined) return
  terminal.print('')
  if (data.breakdown.length === 0) {
    terminal.print(`No ${isSessionMetric(data.metric) ? 'session starts' : 'events'} in this range.`)
    return
  }
  const [titles = '', ...rows] = tableLines(columnsOf(data), rowsOf(data, before), terminal.width)
  terminal.print(terminal.style('bold', titles))
  for (const row of rows) terminal.print(row)
}

/** `--start` and `--end` as Unix ms. The site is read only for its time zone, when a time has none of its own. */
async function rangeOf(
  client: Client,
  siteId: string,
  { start, end, timezone }: StatsOptions,
): Promise<{ start_date: number | undefined; end_date: number | undefined }> {
  const hasZones = [start, end].every((time) => time === undefined || typeof time === 'number')
  const zone = hasZones ? 'UTC' : (timezone ?? (await siteOf(client, siteId)).timezone)
  const at = (time: RangeTime | undefined): number | undefined => {
    try {
      return time === undefined ? undefined : toUnixMs(time, zone)
    } catch {
      throw usageFailure(`The time zone ${safeText(zone)} is not known: give a name like Europe/Berlin.`)
    }
  }
  const [startDate, endDate] = [at(start), at(end)]
  if (startDate !== undefined && endDate !== undefined && startDate >= endDate) {
    throw usageFailure('--start is not before --end: give an earlier start, or a later end.')
  }
  return { start_date: startDate, end_date: endDate }
}

/** The event type that `conversion_rate` counts unless the query names one. */
async function targetOf(client: Client, siteId: string): Promise<string> {
  return (await siteOf(client, siteId)).conversion_event ?? defaultConversionEvent
}

async function siteOf(client: Client, siteId: string): Promise<SiteResource> {
  return (await client.request<SiteResource>('GET', `/api/v1/sites/${encodeURIComponent(siteId)}`)).data
}

/** `target`: the event type that was counted, for `conversion_rate`. */
function summaryOf(data: StatsResult, target: string | undefined): string[] {
  const time = (at: number): string => formatTime(at, data.timezone)
  const compared = data.compare && {
    value: formatValue(data.metric, data.compare.value),
    range: `${time(data.compare.start_date)} to ${time(data.compare.end_date)}`,
  }
  return [
    `${data.metric} of ${safeText(data.site_id)}: ${formatValue(data.metric, data.value)}${data.estimated ? ' (estimated)' : ''}`,
    `${time(data.start_date)} to ${time(data.end_date)}, ${data.timezone}`,
    ...(target === undefined ? [] : [`sessions with an event of the type ${safeText(target)}`]),
    ...(compared ? [`before: ${compared.value}, ${compared.range}`] : []),
  ]
}

function columnsOf(data: StatsResult): TableColumn[] {
  const [first] = data.breakdown ?? []
  return [
    ...(isByTime(data) ? [{ title: titleOfTime(data) }] : []),
    ...(first?.key === undefined ? [] : [{ title: keyTitle(data), isFlexible: true as const }]),
    ...dimensionsBeside(data).map((title) => ({ title, isFlexible: true as const })),
    { title: data.metric, isNumber: true as const },
    ...(isComparable(data) ? [{ title: 'before', isNumber: true as const }] : []),
  ]
}

function rowsOf(data: StatsResult, before: ComparedValue): string[][] {
  const times = bucketTexts(data)
  return (data.breakdown ?? []).map((entry, at) => [
    ...(isByTime(data) ? [times.get(entry.timestamp) ?? ''] : []),
    ...(entry.key === undefined ? [] : [cellOf(entry.key)]),
    ...dimensionsBeside(data).map((name) => cellOf(textOf(entry, name))),
    formatValue(data.metric, entry.value),
    ...(isComparable(data) ? [formatCompared(data.metric, before(entry, at))] : []),
  ])
}

function formatCompared(metric: Metric, value: number | undefined): string {
  return value === undefined ? '' : formatValue(metric, value)
}

/** Types that are split further can't be matched by one key. */
function isComparable(data: StatsResult): boolean {
  return (
    data.compare?.breakdown !== undefined && !(data.metric === 'event_count_by_type' && data.group_by !== undefined)
  )
}

function isByTime({ group_by: grouping }: StatsResult): boolean {
  return timeUnits.some((unit) => unit === grouping)
}

function titleOfTime({ group_by: grouping }: StatsResult): string {
  return grouping ?? 'time'
}

function keyTitle({ metric, group_by: grouping }: StatsResult): string {
  return metric === 'event_count_by_type' || grouping === undefined ? 'event_type' : grouping
}

/** Types by country or device have a second name beside the key. */
function dimensionsBeside({ metric, group_by: grouping }: StatsResult): string[] {
  const isSplit = metric === 'event_count_by_type' && grouping !== undefined && grouping !== 'event_type'
  return isSplit && !timeUnits.some((unit) => unit === grouping) ? [grouping] : []
}

/** The value of a dimension, `''` for an absent one. */
function textOf(entry: BreakdownEntry, name: string): string {
  const value: unknown = Object.entries(entry).find(([key]) => key === name)?.[1]
  return typeof value === 'string' ? value : ''
}

/** A dimension's value in the table, where an empty cell would look like a mistake. */
function cellOf(value: string): string {
  return value === '' ? '(none)' : value
}

/** The texts of the buckets by their time; with the offset in the hour that comes twice when clocks are put back. */
function bucketTexts(data: StatsResult): ReadonlyMap<number, string> {
  const times = new Set((data.breakdown ?? []).map(({ timestamp }) => timestamp))
  const named = [...Map.groupBy(times, (at) => formatBucket(at, data))]
  return new Map(
    named.flatMap(([text, same]) =>
      same.map((at) => [at, same.length === 1 ? text : `${text}${offsetAt(at, data.timezone)}`] as const),
    ),
  )
}

function offsetAt(timestamp: number, timeZone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(timestamp).toZonedDateTimeISO(timeZone).offset
}

function formatBucket(timestamp: number, { timezone, group_by: grouping }: StatsResult): string {
  return formatTime(timestamp, timezone, grouping === 'hour' || grouping === 'minute' ? 'minute' : 'day')
}

function formatValue(metric: Metric, value: number): string {
  if (metric === 'bounce_rate' || metric === 'conversion_rate') return `${value.toFixed(2)} %`
  if (metric === 'avg_session_duration') return `${value.toFixed(1)} s`
  return value.toLocaleString('en-US')
}

/** One line of the whole range, or one of each entry. Times are Unix ms; an absent value is empty. */
function* csvOf(data: StatsResult, comparedValue: ComparedValue): Generator<string> {
  const { compare } = data
  if (data.breakdown === undefined) {
    yield csvLine(['start_date', 'end_date', 'value', ...(compare ? ['before'] : [])])
    yield csvLine([data.start_date, data.end_date, data.value, ...(compare ? [compare.value] : [])])
    return
  }
  const before = isComparable(data) ? comparedValue : undefined
  const hasKeys = data.breakdown.some(({ key }) => key !== undefined)
  const beside = dimensionsBeside(data)
  yield csvLine(['timestamp', ...(hasKeys ? [keyTitle(data)] : []), ...beside, 'value', ...(before ? ['before'] : [])])
  for (const [at, entry] of data.breakdown.entries()) {
    const dimensions = beside.map((name) => textOf(entry, name))
    const keys = hasKeys ? [entry.key ?? ''] : []
    const compared = before ? [before(entry, at) ?? ''] : []
    yield csvLine([entry.timestamp, ...keys, ...dimensions, entry.value, ...compared])
  }
}
