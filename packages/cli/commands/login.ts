import type { Command } from 'commander'
import { askSecret } from '../ask.ts'
import { configFile, removeSettings, saveSettings } from '../config-file.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { usageFailure } from '../failure.ts'
import { clientFor, unencrypted } from '../open-connection.ts'
import { safeText } from '../output/safe-text.ts'
import { parseText } from '../parse-options.ts'
import { addSiteOption, losesTls, readKey, readSettings, type SiteOptions } from '../settings.ts'

/** Adds the command `sluice login`, which saves the address, the API key and the site, and `sluice logout`. */
export function addLogin(program: Command, context: Context): void {
  const command = program
    .command('login')
    .summary('save the address, the API key and the site')
    .description(
      'Asks for an API key, or reads it from standard input, checks it, and saves it with the address in a file that only ' +
        'you can read (~/.config/sluice/config.json). Options and environment variables win over the file.',
    )
    .option('--url <url>', 'where Sluice is (SLUICE_URL)', parseText)
  addSiteOption(command)
    .addHelpText(
      'after',
      examples([
        ['sluice login --url https://stats.example.com --site shop', 'asks for the key'],
        ['sluice login < key.txt', 'takes the key from a file'],
      ]),
    )
    .action((options: SiteOptions) => login(context, options))
  program
    .command('logout')
    .summary('remove what login saved')
    .description(
      'Removes the file that "sluice login" wrote. The key itself stays valid: "sluice keys revoke" ends it.',
    )
    .addHelpText('after', examples([['sluice logout', 'forget the key']]))
    .action(async () => {
      const file = configFile(context.env)
      const wasThere = await removeSettings(file)
      context.terminal.note(wasThere ? `Removed ${file}.` : `Nothing is saved: ${file} does not exist.`)
    })
}

async function login(context: Context, options: SiteOptions): Promise<void> {
  const { env, input, terminal } = context
  // Saved settings are replaced even if they can't be read.
  const settings = await readSettings(context, options, { isReplaced: true })
  const key = input.isTTY === true ? await askSecret(context, `API key for ${settings.url}:`) : await readKey(input)
  if (key === '') throw usageFailure('No API key was given: type it, or pipe it in.')
  const client = clientFor(
    context,
    { ...settings, key, keySource: 'the input' },
    { url: settings.url, retries: 'some' },
  )
  const session = await client.session()
  const file = configFile(env)
  await saveSettings(file, {
    url: settings.url,
    api_key: key,
    ...(settings.site !== undefined && { site: settings.site }),
  })
  terminal.note(`Signed in to ${settings.url} with the key ${safeText(session.name)} (${session.scopes.join(', ')}).`)
  terminal.note(`Saved in ${file}.`)
  if (losesTls(settings.url, session.collect_url)) terminal.note(unencrypted(settings.url, session.collect_url))
}
