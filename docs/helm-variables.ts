import { variables as migrate } from '@sluice/admin/migrate/config'
import { variables as gateway } from '@sluice/gateway/config'
import { variables as query } from '@sluice/query/config'
import type { Variables } from '@sluice/runtime/config'
import { variables as worker } from '@sluice/worker/config'
import { variables as writer } from '@sluice/writer/config'

const processes: Readonly<Record<string, Variables>> = { gateway, writer, query, worker, migrate }

/**
 * The text of deploy/helm/sluice/files/variables.json, by which the chart knows what each process reads and what
 * belongs into the Secret: a new variable is written in one place only.
 */
export function helmVariables(): string {
  const byProcess = Object.fromEntries(
    Object.entries(processes).map(([process, variables]) => [process, withoutSchemas(variables)]),
  )
  return `${JSON.stringify(byProcess, undefined, 2)}\n`
}

function withoutSchemas(variables: Variables): object {
  return Object.fromEntries(
    Object.entries(variables).map(([name, { secret = false, optional = false, default: text }]) => [
      name,
      { secret, required: text === undefined && !optional, ...(text && { default: text }) },
    ]),
  )
}
