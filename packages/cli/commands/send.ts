import type { Command } from 'commander'
import { isAbsent } from '@sluice/contracts/absent-field'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { missingFields } from '../complete-event.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { usageFailure } from '../failure.ts'
import { clientFor, collectUrlOf, openConnection } from '../open-connection.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import { collectProperty, parseTime } from '../parse-options.ts'
import { sendLines } from '../send-lines.ts'
import { addConnectionOptions, addSiteOption, refuseKeyOnInput, requireSite, type SiteOptions } from '../settings.ts'

/** Fields of an event that have an option of their own. */
interface EventOptions {
  user?: string
  session?: string
  anonymous?: string
  pageUrl?: string
  referrer?: string
  country?: string
  device?: string
  property?: Record<string, unknown>
  timestamp?: number
  eventId?: string
}

type SendOptions = SiteOptions & EventOptions & { json?: boolean }

/**
 * How long the events that were read are still sent after the first signal; a second signal ends the command at once.
 */
const sendAfterSignalMs = 5_000
const exampleEvent = `'{"event_type":"signup"}'`

/** Adds the command `sluice send`, which sends one event, or the events of standard input. */
export function addSend(program: Command, context: Context): void {
  const command = program
    .command('send')
    .summary('send one event, or the events of standard input')
    .description(
      'Sends an event and prints its id and timestamp (Unix ms). <event> is its type, or the whole event as JSON, or - ' +
        'for standard input with one JSON object per line.',
    )
    .argument('<event>', 'an event type, a JSON object, or -')
  addSiteOption(command)
    .option('-u, --user <id>', 'user_id')
    .option('--session <id>', 'session_id')
    .option('--anonymous <id>', 'anonymous_id')
    .option('--page-url <url>', 'url of the event')
    .option('--referrer <url>', 'referrer')
    .option('--country <code>', 'country, two letters')
    .option('--device <type>', 'device_type: desktop, mobile or tablet')
    .option(
      '-p, --property <name=value>',
      'a property (repeatable); name:=json gives numbers and booleans',
      collectProperty,
    )
    .option('-t, --timestamp <time>', 'Unix ms or ISO 8601 (UTC without an offset), instead of now', parseTime)
    .option('--event-id <id>', 'the id, instead of a new one')
    .option('--json', 'print a JSON object for each event')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice send signup --site shop --user ada -p plan=pro -p seats:=5', 'an event with two properties'],
        [`sluice send '{"event_type":"signup","user_id":"ada"}' --site shop`, 'the same event as JSON'],
        ['tail -f events.ndjson | sluice send - --site shop', 'events as a program writes them'],
      ]),
    )
    .action((event: string, options: SendOptions) => send(context, event, options))
}

async function send(context: Context, event: string, options: SendOptions): Promise<void> {
  const print = (id: unknown, timestamp: unknown): void => {
    const line = options.json
      ? safeJson({ event_id: id, timestamp })
      : `${safeText(String(id))}\t${safeText(String(timestamp))}`
    context.terminal.print(line)
  }
  const given = fieldsOf(options)
  if (event === '-') {
    refuseKeyOnInput(options)
    const [name] = Object.keys(given)
    if (name !== undefined) {
      throw usageFailure(
        `The option for ${name} is for a single event: the events on standard input have their own fields.`,
      )
    }
    // The command waits for a Sluice that is started later, as it waits for one that is restarted.
    const connection = await openConnection(context, options, { retries: 'long' })
    const { settings } = connection
    // Events that were read before a signal are sent after it.
    const longer = { ...context, signal: delayed(context.signal, sendAfterSignalMs) }
    const client = clientFor(longer, settings, { url: await collectUrlOf(connection), retries: 'long' })
    await sendLines({ context, client, siteId: settings.site, onStored: print })
    return
  }
  const described = parseEvent(event)
  const fields: Record<string, unknown> = {
    ...described,
    ...given,
    // An option replaces a property of its name, and leaves the others.
    ...(isJsonObject(described.properties) && { properties: { ...described.properties, ...options.property } }),
    ...(options.site !== undefined && { site_id: options.site }),
  }
  const connection = await openConnection(context, options)
  const { settings } = connection
  const siteId = isAbsent(fields.site_id) ? requireSite(settings) : undefined
  const complete = { ...fields, ...missingFields(fields, siteId) }
  const client = clientFor(context, settings, { url: await collectUrlOf(connection), retries: 'some' })
  await client.request('POST', '/collect', { json: complete })
  print(complete.event_id, complete.timestamp)
}

/** A signal that is aborted `ms` after another one. */
function delayed(signal: AbortSignal, ms: number): AbortSignal {
  const controller = new AbortController()
  const abort = (): void => controller.abort(signal.reason)
  signal.addEventListener('abort', () => setTimeout(abort, ms).unref(), { once: true })
  return controller.signal
}

/** The fields of an event that is given as JSON, or as its type alone. */
function parseEvent(text: string): JsonObject {
  let value: unknown
  try {
    value = parseExactly(text)
  } catch {
    if (!text.trimStart().startsWith('{')) return { event_type: text }
    throw usageFailure(`The event is not valid JSON: give an object like ${exampleEvent}.`)
  }
  if (isJsonObject(value)) return value
  throw usageFailure(
    `The event is JSON, but not an object: give one like ${exampleEvent}, also for an event type that looks like JSON.`,
  )
}

/** The fields that options give. */
function fieldsOf(options: SendOptions): Record<string, unknown> {
  const fields = {
    user_id: options.user,
    session_id: options.session,
    anonymous_id: options.anonymous,
    url: options.pageUrl,
    referrer: options.referrer,
    country: options.country,
    device_type: options.device,
    properties: options.property,
    timestamp: options.timestamp,
    event_id: options.eventId,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
