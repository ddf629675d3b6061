import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { liveLimits, type LiveResult } from '@sluice/contracts/live'
import type { StatsResult } from '@sluice/contracts/stats'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { hourMs } from '@sluice/contracts/time-units'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { analysisTimeoutMs, type Client } from '../client.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { openConnection } from '../open-connection.ts'
import { countOf, formatTime, localTimeZone } from '../output/format.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import { cut } from '../output/table.ts'
import type { Terminal } from '../output/terminal.ts'
import { parseCount, parseFilter, parseText } from '../parse-options.ts'
import { addConnectionOptions, addSiteOption, environmentOption, requireSite, type SiteOptions } from '../settings.ts'

interface TailOptions extends SiteOptions {
  lines: number
  eventType?: string
  filter?: string
  environment?: string
  follow: boolean
  json?: boolean
}

/** The parameters of every request of one `tail`. */
interface TailQuery {
  site_id: string
  environment: string | undefined
  filter: string | undefined
}

const pollMs = 1_000
/** How far back the list of the latest events goes. */
const listedMs = liveLimits.lastEventsHours * hourMs

/** Adds the command `sluice tail`, which prints events as they arrive. */
export function addTail(program: Command, context: Context): void {
  const command = program
    .command('tail')
    .summary('follow events as they arrive')
    .description(
      'Prints the latest events of a site and then each new one, the oldest first, until Ctrl-C. What arrives faster than ' +
        `${liveLimits.lastEventsMax} events a second is skipped, and the number of skipped events is printed to standard error. ` +
        'Events that are older than the latest ones are not shown.',
    )
  addSiteOption(command)
    .option(
      '-n, --lines <n>',
      'how many of the latest events are printed first',
      parseCount(0, liveLimits.lastEventsMax),
      10,
    )
    .option('--event-type <type>', 'only events of this type', parseText)
    .option('--filter <conditions>', 'only events that meet a JSON list of conditions', parseFilter)
    .addOption(environmentOption())
    .option('--no-follow', 'print the latest events and end')
    .option('--json', 'print each event as a line of JSON')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice tail --site shop', 'everything that happens'],
        ['sluice tail --site shop --event-type purchase --json | jq .properties.total', 'one number for each purchase'],
      ]),
    )
    .action((options: TailOptions) => tail(context, options))
}

async function tail(context: Context, options: TailOptions): Promise<void> {
  const { terminal, signal } = context
  const { settings, client } = await openConnection(context, options, { retries: options.follow ? 'long' : 'some' })
  const tailQuery = {
    site_id: requireSite(settings),
    environment: options.environment,
    filter: filterOf(options),
  }
  const print = (events: readonly StoredEvent[]): Promise<void> => {
    for (const event of events) terminal.print(options.json ? safeJson(event) : lineOf(event, terminal))
    return terminal.drained()
  }
  let { events: latest, readAt } = await readLatest(client, tailQuery)
  await print(options.lines === 0 ? [] : latest.slice(-options.lines))
  if (!options.follow) return
  if (latest.length === 0)
    terminal.note(`No events in the last day. Waiting for events of ${safeText(tailQuery.site_id)}…`)
  for (;;) {
    await delay(pollMs, undefined, { signal })
    const seen = new Set(latest.map(identityOf))
    const next = await readLatest(client, tailQuery)
    const fresh = next.events.filter((event) => !seen.has(identityOf(event)))
    if (fresh.length === liveLimits.lastEventsMax) {
      const skipped = await countSkipped(client, tailQuery, {
        latest,
        since: latest.at(-1)?.timestamp ?? readAt - listedMs,
        fresh,
      })
      if (skipped > 0) {
        const text = `Skipped ${countOf(skipped, 'event')}: more arrive than can be shown.`
        terminal.note(terminal.style('yellow', text, 'notes'))
      }
    }
    // Newer events push older ones out of a full list. If the newer ones are erased, the older ones come back into the
    // list, but must not be printed again.
    const horizon = latest.length < liveLimits.lastEventsMax ? 0 : (latest.at(0)?.timestamp ?? 0)
    await print(fresh.filter(({ timestamp }) => timestamp >= horizon))
    if (next.events.length > 0) latest = next.events
    readAt = next.readAt
  }
}

/** The latest events, the oldest first, and the server's time (Unix ms). */
async function readLatest(client: Client, tailQuery: TailQuery): Promise<{ events: StoredEvent[]; readAt: number }> {
  const { data, timestamp } = await client.request<LiveResult>('GET', '/api/v1/live', {
    query: { ...tailQuery },
    timeoutMs: analysisTimeoutMs,
  })
  return { events: data.last_events.toReversed(), readAt: timestamp }
}

/**
 * The number of events between the last list, `latest`, and the new ones, `fresh`, that neither contains. `since`: the
 * timestamp at which `latest` ends.
 */
async function countSkipped(
  client: Client,
  tailQuery: TailQuery,
  { latest, since, fresh }: { latest: readonly StoredEvent[]; since: number; fresh: readonly StoredEvent[] },
): Promise<number> {
  const until = fresh.at(0)?.timestamp ?? 0
  if (until < since) return 0
  const { data } = await client.request<StatsResult>('GET', '/api/v1/stats', {
    timeoutMs: analysisTimeoutMs,
    query: { ...tailQuery, metric: 'event_count', start_date: since, end_date: until + 1, exact: true },
  })
  // Both ends of the range are included, because several events may have the same millisecond. The events that are
  // shown are subtracted.
  const shown = [
    ...latest.filter(({ timestamp }) => timestamp >= since),
    ...fresh.filter(({ timestamp }) => timestamp <= until),
  ]
  return data.value - shown.length
}

function filterOf({ eventType, filter }: TailOptions): string | undefined {
  if (eventType === undefined) return filter
  const conditions = filter === undefined ? [] : (parseExactly(filter) as unknown[])
  return JSON.stringify([{ property: 'event_type', operator: 'equals', value: eventType }, ...conditions])
}

function identityOf({ event_id: id, timestamp, environment }: StoredEvent): string {
  return `${timestamp} ${environment} ${id}`
}

/** `12:30:05.123  page_view  https://…  user_id=ada  {"plan":"pro"}`, cut to the terminal. */
function lineOf(event: StoredEvent, terminal: Terminal): string {
  const { timestamp, event_type: type, url, user_id: user, anonymous_id: anonymous, session_id: session } = event
  const who = user
    ? `user_id=${user}`
    : anonymous
      ? `anonymous_id=${anonymous}`
      : session
        ? `session_id=${session}`
        : ''
  const ms = String(timestamp % 1_000).padStart(3, '0')
  const time = `${formatTime(timestamp, localTimeZone(), 'second')}.${ms}`
  const properties = event.properties === undefined ? '' : JSON.stringify(event.properties)
  const rest = [url, who, properties]
    .filter((text) => text !== undefined && text !== '')
    .map((text) => safeText(text ?? ''))
  const head = `${time}  ${safeText(type)}`
  const line = cut([head, ...rest].join('  '), terminal.width)
  // Styled after the cut: codes of the terminal have no width.
  return line.startsWith(head)
    ? `${terminal.style('dim', time)}  ${terminal.style('bold', safeText(type))}${line.slice(head.length)}`
    : line
}
