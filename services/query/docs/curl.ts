import { exampleApiKey } from '@sluice/contracts/session'
import { exampleOf } from '@sluice/contracts/openapi-example'
import type { JsonSchema, OperationObject, Parameter } from '@sluice/contracts/openapi-types'

/** A command that carries the operation out, for a shell that has `SLUICE_URL` and `SLUICE_KEY`. */
export function curlExample(
  { method, path, operation }: { method: string; path: string; operation: OperationObject },
  schemas: Readonly<Record<string, JsonSchema>>,
): string {
  const { parameters = [], requestBody, security } = operation
  const body = requestBody?.content['application/json']?.example
  const isDefault = method === 'GET' || (method === 'POST' && body !== undefined)
  const words = [
    `curl -s${isDefault ? '' : ` -X ${method}`} "$SLUICE_URL${pathWith(parameters, path, schemas)}"`,
    ...(security.length > 0 ? ['-H "Authorization: Bearer $SLUICE_KEY"'] : []),
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`]),
  ]
  return words.join(' \\\n  ')
}

/** With the examples of path parameters, and of those query parameters that have one. */
function pathWith(
  parameters: readonly Parameter[],
  path: string,
  schemas: Readonly<Record<string, JsonSchema>>,
): string {
  const example = ({ schema }: Parameter): string => encodeURIComponent(String(exampleOf(schema, schemas)))
  const filled = parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce((text, parameter) => text.replace(`{${parameter.name}}`, example(parameter)), path)
  const query = parameters
    .filter((parameter) => parameter.in === 'query' && (parameter.required === true || parameter.schema.examples))
    .map((parameter) => `${parameter.name}=${example(parameter)}`)
  return query.length === 0 ? filled : `${filled}?${query.join('&')}`
}

/** One word of a POSIX shell; the key comes from its variable. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`.replace(exampleApiKey, `'"$SLUICE_KEY"'`)
}
