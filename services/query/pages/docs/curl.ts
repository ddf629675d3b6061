import { exampleOf } from '@sluice/api/openapi/example'
import type { JsonSchema, OperationObject, Parameter } from '@sluice/api/openapi/types'
import { exampleApiKey } from '@sluice/api/session'

/**
 * Returns a curl command for the operation; the shell has the variables `SLUICE_KEY` and, for an operation without a
 * server of its own, `SLUICE_URL`.
 */
export function curlExample(
  { method, path, operation }: { method: string; path: string; operation: OperationObject },
  schemas: Readonly<Record<string, JsonSchema>>,
): string {
  const { parameters = [], requestBody, security, servers: [server = { url: '$SLUICE_URL' }] = [] } = operation
  const body = requestBody?.content['application/json']?.example
  const form = requestBody?.content['multipart/form-data']?.schema
  const isDefault = method === 'GET' || (method === 'POST' && (body !== undefined || form !== undefined))
  const words = [
    `curl -s${isDefault ? '' : ` -X ${method}`} "${server.url}${pathWith(parameters, path, schemas)}"`,
    ...(security.length > 0 ? ['-H "Authorization: Bearer $SLUICE_KEY"'] : []),
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`]),
    ...(form === undefined ? [] : formWords(form, schemas)),
  ]
  return words.join(' \\\n  ')
}

/** The parts of a form; its file is one of the current folder. */
function formWords({ properties = {} }: JsonSchema, schemas: Readonly<Record<string, JsonSchema>>): string[] {
  return Object.entries(properties).map(([name, schema]) => {
    const isFile = schema.contentMediaType !== undefined
    return `-F ${name}=${isFile ? '@events.csv' : quoted(String(exampleOf(schema, schemas)))}`
  })
}

/** Fills in the path parameters, and appends the query parameters that are required or have an example. */
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

/** Quotes a text as one word of a POSIX shell; the example key becomes its variable. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`.replace(exampleApiKey, `'"$SLUICE_KEY"'`)
}
