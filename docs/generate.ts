// npm run docs: writes the pages, and the parts of pages, that are made from code.
import { readFile, writeFile } from 'node:fs/promises'
import { withCommandReference } from './command-line.ts'
import { configurationPage } from './configuration.ts'
import { dashboardOperations } from './dashboard-operations.ts'
import { decisionsPage } from './decisions.ts'
import { helmVariables } from './helm-variables.ts'
import { limitsPage } from './limits.ts'
import { withPackagesDrawing } from './packages.ts'
import { rightsPage } from './rights.ts'
import { withPinnedScript } from './sdk-script.ts'

await writeFile(new URL('configuration.md', import.meta.url), configurationPage())
await writeFile(new URL('decisions/README.md', import.meta.url), decisionsPage())
await writeFile(new URL('limits.md', import.meta.url), limitsPage())
await writeFile(new URL('rights.md', import.meta.url), rightsPage())
await writeFile(new URL('../packages/dashboard/src/api/operations.gen.ts', import.meta.url), dashboardOperations())
await writeFile(new URL('../deploy/helm/sluice/files/variables.json', import.meta.url), helmVariables())

const architecture = new URL('architecture.md', import.meta.url)
await writeFile(architecture, withPackagesDrawing(await readFile(architecture, 'utf8')))

const commandLine = new URL('command-line.md', import.meta.url)
await writeFile(commandLine, withCommandReference(await readFile(commandLine, 'utf8')))

const browserSdk = new URL('sdk/browser.md', import.meta.url)
await writeFile(browserSdk, withPinnedScript(await readFile(browserSdk, 'utf8')))
