import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { variables } from '@sluice/query/config'
import { loadConfig } from '@sluice/runtime/config'

/** Variables that the blocks of a page set for services that run apart. */
function variablesIn(file: string): Record<string, string> {
  const page = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block)
  const settings = blocks.filter((block) => /^(export )?SLUICE_LOG_URL=kafka/m.test(block)).join('\n')
  return Object.fromEntries(
    [...settings.matchAll(/^(?:export )?(SLUICE_\w+)=(.*)$/gm)].map(([, name = '', value]) => [name, value ?? '']),
  )
}

test.each(['docs/getting-started.md', 'deploy/README.md'])(
  '%s names the gateway to the query service, which would name itself to those who send events',
  (file) => {
    const { SLUICE_COLLECT_URL: url } = loadConfig(
      { SLUICE_COLLECT_URL: variables.SLUICE_COLLECT_URL },
      variablesIn(file),
    )
    expect(new URL(url ?? 'http://missing').port).toBe('8080')
  },
)
