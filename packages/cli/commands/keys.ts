import { Argument, type Command, Option } from 'commander'
import { type KeyResource, type NewKeyResource } from '@sluice/contracts/keys'
import { type ListOf, pageDefaults } from '@sluice/contracts/paging'
import { environments, scopes } from '@sluice/contracts/scopes'
import { confirm } from '../ask.ts'
import { type Client, isServerFailure } from '../client.ts'
import { isTransient } from '../connection-failure.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { Failure, messageOf, usageFailure } from '../failure.ts'
import { openConnection } from '../open-connection.ts'
import { formatDuration, formatTime, localTimeZone } from '../output/format.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import { tableLines } from '../output/table.ts'
import type { Terminal } from '../output/terminal.ts'
import { checkDuration, collectList, parseCount, parseDuration, parseTimeAhead } from '../parse-options.ts'
import { addConnectionOptions, type ConnectionOptions } from '../settings.ts'

interface JsonOptions extends ConnectionOptions {
  json?: boolean
}

interface ListOptions extends JsonOptions {
  all?: boolean
}

interface CreateOptions extends JsonOptions {
  scope?: string[]
  sites?: string[]
  allSites?: boolean
  environment?: string
  expires?: number
  origin?: string[]
  eventsPerMinute?: number
  eventsPerMinutePerAddress?: number
}

interface RotateOptions extends JsonOptions {
  overlap: string
  yes?: boolean
}

interface RevokeOptions extends JsonOptions {
  yes?: boolean
}

const keysPath = '/api/v1/settings/keys'
const limitMax = 10_000_000
const keyIdArgument = new Argument('<key_id>', 'the id that "sluice keys list" shows')
const yesOption = new Option('-y, --yes', 'do not ask for confirmation')

/** Adds the commands `sluice keys …`, which list, create, rotate and revoke API keys. */
export function addKeys(program: Command, context: Context): void {
  const keys = program
    .command('keys')
    .summary('list, create, rotate and revoke API keys')
    .description('API keys. All of these commands need a key with the scope admin.')
    .addHelpText(
      'after',
      examples([['sluice keys create "web shop" --scope events:write --sites shop', 'a key for one site']]),
    )
  addList(keys, context)
  addCreate(keys, context)
  addRotate(keys, context)
  addRevoke(keys, context)
}

function addList(keys: Command, context: Context): void {
  const command = keys
    .command('list')
    .summary('list the keys')
    .description("Lists the keys that can be used, newest first. The keys themselves can't be listed.")
    .option('-a, --all', 'also list revoked and expired keys')
    .option('--json', 'print JSON')
  addConnectionOptions(command)
    .addHelpText('after', examples([['sluice keys list --all', 'every key, also revoked and expired ones']]))
    .action((options: ListOptions) => list(context, options))
}

async function list(context: Context, options: ListOptions): Promise<void> {
  const { terminal } = context
  const { client } = await openConnection(context, options)
  const all = await readKeys(client)
  const keys = options.all ? all : all.filter((key) => stateOf(key) === 'active')
  if (options.json) {
    terminal.print(safeJson(keys, 2))
    return
  }
  if (keys.length === 0) {
    terminal.note('There are no keys that can be used.')
    return
  }
  const time = (at: number | null): string => (at === null ? 'never' : formatTime(at, localTimeZone()))
  const [titles = '', ...rows] = tableLines(
    [
      { title: 'key_id' },
      { title: 'name', isFlexible: true },
      { title: 'key' },
      { title: 'scopes', isFlexible: true },
      { title: 'sites', isFlexible: true },
      { title: 'last used' },
      { title: 'state' },
    ],
    keys.map((key) => [
      key.key_id,
      key.name,
      key.hint,
      key.scopes.join(','),
      key.site_ids?.join(',') ?? 'all',
      time(key.last_used_at),
      key.expires_at !== null && stateOf(key) === 'active' ? `active until ${time(key.expires_at)}` : stateOf(key),
    ]),
    terminal.width,
  )
  terminal.print(terminal.style('bold', titles))
  for (const row of rows) terminal.print(row)
}

async function readKeys(client: Client): Promise<KeyResource[]> {
  const keys: KeyResource[] = []
  for (;;) {
    const { data } = await client.request<ListOf<'keys', KeyResource>>('GET', keysPath, {
      query: { limit: pageDefaults.limitMax, offset: keys.length },
    })
    keys.push(...data.keys)
    if (data.keys.length === 0 || keys.length >= data.total) return keys
  }
}

function stateOf({ revoked_at: revokedAt, expires_at: expiresAt }: KeyResource): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt <= Date.now() ? 'expired' : 'active'
}

function addCreate(keys: Command, context: Context): void {
  const command = keys
    .command('create')
    .summary('create a key and print it, once')
    .description(
      'Creates a key. The key itself goes to standard output, this once: no later command can show it. Everything else ' +
        'about it goes to standard error.',
    )
    .argument('<name>', 'a name to recognise the key by')
    .option('--scope <scope>', `${scopes.join(', ')} (repeatable; default: events:write, stats:read)`, collectList)
    .addOption(
      new Option('--sites <sites>', 'the sites that the key may use, separated by commas')
        .argParser(collectList)
        .conflicts('allSites'),
    )
    .option('--all-sites', 'the key may use every site (default when your own key may)')
    .addOption(
      new Option('--environment <name>', 'the environment in which its events are stored').choices(environments),
    )
    .option(
      '--expires <time>',
      'when the key expires: a duration like 90d, or a time (UTC without an offset)',
      parseTimeAhead,
    )
    .option('--origin <origin>', 'for a key in web pages: an origin that may send (repeatable)', collectList)
    .option('--events-per-minute <n>', 'how many events the key may send', parseCount(1, limitMax))
    .option(
      '--events-per-minute-per-address <n>',
      'how many events each IP address may send with the key',
      parseCount(1, limitMax),
    )
    .option('--json', 'print the record with the key as JSON')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['KEY=$(sluice keys create ci --scope events:write --sites shop)', 'a key for a script'],
        [
          'sluice keys create page --scope events:write --sites shop --origin https://shop.example',
          'a key for a web page',
        ],
      ]),
    )
    .action((name: string, options: CreateOptions) => create(context, name, options))
}

async function create(context: Context, name: string, options: CreateOptions): Promise<void> {
  const { client } = await openConnection(context, options)
  const limits = {
    events_per_minute: options.eventsPerMinute,
    events_per_minute_per_address: options.eventsPerMinutePerAddress,
  }
  const hasLimits = Object.values(limits).some((limit) => limit !== undefined)
  const data = await makeKey(context, client, {
    path: keysPath,
    json: {
      name,
      scopes: options.scope,
      site_ids: options.allSites ? null : options.sites,
      environment: options.environment,
      expires_at: options.expires,
      allowed_origins: options.origin,
      ...(hasLimits && { rate_limits: limits }),
    },
  })
  printNewKey(context.terminal, data, options)
  await requirePrinted(context.terminal, data)
}

/** The request that makes a key. */
interface KeyRequest {
  path: string
  json: object
}

/** Sends the request that makes a key, once. Throws a Failure, and the signal's reason. */
async function makeKey(
  { terminal, signal }: Context,
  client: Client,
  { path, json }: KeyRequest,
): Promise<NewKeyResource> {
  const advice = 'The key may exist all the same: see "sluice keys list".'
  try {
    return (await client.request<NewKeyResource>('POST', path, { json, isRepeatable: false })).data
  } catch (error) {
    // The command ends without a message of its own.
    if (signal.aborted) terminal.note(advice)
    // The answer may have been lost.
    if (signal.aborted || !(isTransient(error) || isServerFailure(error))) throw error
    throw new Failure(`${messageOf(error)} ${advice}`)
  }
}

function addRotate(keys: Command, context: Context): void {
  const command = keys
    .command('rotate')
    .summary('replace a key by a new one with the same rights')
    .description(
      'Creates a key with the same rights and prints it, once. The old key stays valid for the overlap, in which the new ' +
        'one takes its place.',
    )
    .addArgument(keyIdArgument)
    .option('--overlap <duration>', 'how long the old key stays valid; 0s asks for confirmation', checkDuration, '7d')
    .addOption(yesOption)
    .option('--json', 'print the record with the key as JSON')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice keys rotate key_01M81TGRYXHRH0MF4XMZ41ZADB --overlap 24h', 'a new key; the old one ends tomorrow'],
      ]),
    )
    .action((keyId: string, options: RotateOptions) => rotate(context, keyId, options))
}

async function rotate(context: Context, keyId: string, options: RotateOptions): Promise<void> {
  const endsAtOnce = parseDuration(options.overlap) === 0
  const { client } = await openConnection(context, options)
  const path = pathOfKey(keyId)
  if (endsAtOnce) {
    const { data } = await client.request<KeyResource>('GET', path)
    const question = `Programs that use the key ${safeText(data.name)} (${data.hint}) are refused at once. Rotate it?`
    await confirm(context, question, options.yes === true)
  }
  const data = await makeKey(context, client, { path: `${path}/rotate`, json: { overlap: options.overlap } })
  printNewKey(context.terminal, data, options)
  if (!endsAtOnce) context.terminal.note(endsOf(keyId, data, options))
  await requirePrinted(context.terminal, data)
}

/** When the old key of a rotation ends. */
function endsOf(keyId: string, { expires_at: expiresAt }: NewKeyResource, { overlap }: RotateOptions): string {
  // The new key has the expiry of the old one.
  return expiresAt !== null && expiresAt < Date.now() + parseDuration(overlap)
    ? `Both keys expire in ${formatDuration(expiresAt - Date.now())}: the new key has the expiry of the old one.`
    : `The old key ${keyId} stays valid for ${overlap}.`
}

function addRevoke(keys: Command, context: Context): void {
  const command = keys
    .command('revoke')
    .summary('revoke a key for good')
    .description("Revokes a key: within two seconds every request with it is refused. This can't be undone.")
    .addArgument(keyIdArgument)
    .addOption(yesOption)
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([['sluice keys revoke key_01M81TGRYXHRH0MF4XMZ41ZADB --yes', 'revoke a key in a script']]),
    )
    .action((keyId: string, options: RevokeOptions) => revoke(context, keyId, options))
}

async function revoke(context: Context, keyId: string, options: RevokeOptions): Promise<void> {
  const { client } = await openConnection(context, options)
  const path = pathOfKey(keyId)
  const { data } = await client.request<KeyResource>('GET', path)
  const name = `${safeText(data.name)} (${data.hint})`
  await confirm(context, `Programs that use the key ${name} are refused from now on. Revoke it?`, options.yes === true)
  await client.request('DELETE', path)
  context.terminal.note(`Revoked the key ${name}.`)
}

function pathOfKey(keyId: string): string {
  if (keyId === '') throw usageFailure('<key_id> is empty: "sluice keys list" shows the ids of keys.')
  return `${keysPath}/${encodeURIComponent(keyId)}`
}

/** The key alone on standard output, so that scripts can take it; the rest is for people. */
function printNewKey(terminal: Terminal, key: NewKeyResource, { json }: JsonOptions): void {
  if (json) {
    terminal.print(safeJson(key, 2))
    return
  }
  const sites = key.site_ids === null ? 'all sites' : `the sites ${key.site_ids.map(safeText).join(', ')}`
  terminal.note(`Created ${key.key_id}, ${safeText(key.name)}: ${key.scopes.join(', ')}, ${key.environment}, ${sites}.`)
  terminal.note('The key, which is shown only once:')
  terminal.print(key.key)
}

/** Throws a Failure when the new key could not be printed: it is valid all the same, and nothing can show it again. */
async function requirePrinted(terminal: Terminal, { key_id: keyId }: NewKeyResource): Promise<void> {
  if (await terminal.written()) return
  throw new Failure(
    `The key ${keyId} was created but could not be printed, so nobody has it: revoke it with "sluice keys revoke ${keyId} --yes", ` +
      `or replace it by one that is printed with "sluice keys rotate ${keyId} --overlap 0s --yes".`,
  )
}
