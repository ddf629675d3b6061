import type { Operation } from '@sluice/api/operation'
import { operations } from '@sluice/api/operations'

/**
 * packages/dashboard/src/api/operations.gen.ts: what the dashboard may call, from the table that the services and the
 * OpenAPI document are made of. The dashboard itself may not import the table, which needs joi.
 */
export function dashboardOperations(): string {
  const rows = (Object.values(operations) as Operation[]).map(
    (operation) =>
      `  ${operation.id}: { method: '${operation.method}', path: '${pathOf(operation)}', scopes: [${scopesOf(operation)}] },`,
  )
  return `// Written by npm run docs.

/**
 * Every operation by its operationId. \`path\` holds its parameters as \`{name}\`; any one of \`scopes\` is sufficient,
 * and without scopes any credential is.
 */
export const operations = {
${rows.join('\n')}
} as const
`
}

function pathOf({ path }: Operation): string {
  return path.replace(/:(\w+)/g, '{$1}')
}

function scopesOf({ scope, alternativeScope }: Operation): string {
  if (scope === 'public' || scope === 'authenticated') return ''
  return [scope, ...(alternativeScope === undefined ? [] : [alternativeScope])].map((each) => `'${each}'`).join(', ')
}
