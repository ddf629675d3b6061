import { resolveReference } from '@sluice/api/openapi/example'
import type {
  JsonSchema,
  OpenApiDocument,
  OperationObject,
  Parameter,
  Reference,
  Response,
} from '@sluice/api/openapi/types'
import { curlExample } from './curl.ts'
import { fieldsTable, nameOf, rulesOf, typeOf } from './fields.ts'
import { code, escape, inline, table } from './html.ts'

export interface Entry {
  method: string
  path: string
  operation: OperationObject
}

/** Renders the section of one operation: summary, access, parameters, body, responses and an example call. */
export function operationHtml(entry: Entry, { components }: OpenApiDocument): string {
  const { method, path, operation } = entry
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation
  const contents = requestBody?.content ?? {}
  const body = (contents['application/json'] ?? contents['multipart/form-data'])?.schema
  const parts = [
    `<h3 id="${operationId}"><code>${method} ${escape(path)}</code></h3>`,
    `<p>${inline(summary)} ${inline(description)}</p>`,
    table('Parameters', ['Name', 'In', 'Type', 'Rules', 'Meaning'], parameters.map(parameterRow)),
    requestBody &&
      `<p>Body: ${Object.keys(contents).map(code).join(', ')}. ${inline([requestBody.description, body?.description].filter(Boolean).join(' '))}</p>`,
    body && fieldsTable('Body', body.$ref === undefined ? body : resolveReference(body.$ref, components.schemas)),
    table(
      'Answers',
      ['Status', 'Meaning'],
      Object.entries(responses).map(([status, response]) => [
        status,
        responseMeaning(resolved(response, components.responses)),
      ]),
    ),
    dataTable(responses, components.responses),
    `<pre><code>${escape(curlExample(entry, components.schemas))}</code></pre>`,
  ]
  return `<article aria-labelledby="${operationId}">
${parts.filter((part) => part !== undefined && part !== '').join('\n')}
</article>`
}

function parameterRow({ name, in: place, required = false, schema, description = '' }: Parameter): string[] {
  return [code(name), place, typeOf(schema), rulesOf(schema, required), inline(description)]
}

function resolved(response: Response | Reference, responses: Record<string, Response>): Response {
  if (!('$ref' in response)) return response
  const found = responses[nameOf(response.$ref)]
  if (!found) throw new Error(`no response for ${response.$ref}`)
  return found
}

function responseMeaning(response: Response): string {
  const data = dataOf(response)
  return data?.$ref === undefined
    ? inline(response.description)
    : `${inline(response.description)}; <code>data</code>: ${typeOf(data)}`
}

/** The fields of a success whose `data` is not one of the objects at the end of the page. */
function dataTable(responses: OperationObject['responses'], shared: Record<string, Response>): string {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
  const data = success && dataOf(resolved(success, shared))
  return data === undefined || data.$ref !== undefined ? '' : fieldsTable('<code>data</code>', data)
}

function dataOf({ content }: Response): JsonSchema | undefined {
  return content['application/json']?.schema.properties?.data
}
