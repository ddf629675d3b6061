import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { openApiDocument } from '@sluice/api/openapi/document'

const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true, validateFormats: false })
ajv.addVocabulary(['components'])
let validators: Map<string, ValidateFunction> | undefined

/**
 * Throws an error with the differences between the body of a delivery and the document of its kind, in which no object
 * may have other fields than those of the document.
 */
export function checkDelivery(body: { event_type: string }): void {
  validators ??= documentedBodies()
  const { event_type: kind } = body
  const validate = validators.get(kind)
  if (!validate) throw new Error(`no delivery ${kind} is documented`)
  if (validate(body)) return
  const differences = ajv.errorsText(validate.errors, { dataVar: 'body' })
  throw new Error(`a delivery ${kind} is not as documented: ${differences}`)
}

function documentedBodies(): Map<string, ValidateFunction> {
  const { webhooks, components } = openApiDocument({}, { version: 'test', closed: true })
  const { schemas } = components
  return new Map(
    Object.entries(webhooks).map(([kind, { post }]) => {
      const schema = post.requestBody?.content['application/json']?.schema
      return [kind, ajv.compile({ ...schema, components: { schemas } })]
    }),
  )
}
