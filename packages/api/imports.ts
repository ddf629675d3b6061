import joi from 'joi'
import {
  type AcceptedImport,
  type CreateImportFields,
  type ImportError,
  importLimits,
  type ImportResource,
  importStatuses,
  importTypes,
  type ListImportsQuery,
} from '@sluice/contracts/imports'
import { enumText } from '@sluice/runtime/schemas'
import type { MultipartBodyRule } from './operation.ts'
import { listOf, pageParameters } from './paging.ts'
import { parameterMessages } from './parameters.ts'
import { siteId } from './sites.ts'
import { timeOrNull } from './times.ts'

const type = enumText(importTypes)

export const createImportBody: MultipartBodyRule<joi.ObjectSchema<CreateImportFields>> = {
  kind: 'multipart',
  file: 'file',
  fields: joi.object<CreateImportFields>({
    type: type.required().description('Kind of the records.'),
    site_id: siteId.required(),
  }),
  maxBytes: importLimits.fileBytesMax,
}

const count = joi.number().integer().required()

export const acceptedImport = joi.object<AcceptedImport>({
  job_id: joi.string().required(),
  status: joi.string().valid('uploading').required(),
  total_records: count.description('Number of records in the file, including invalid ones.'),
})

export const listImportsQuery = joi
  .object<ListImportsQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

export const importResource = joi
  .object<ImportResource>({
    job_id: joi.string().required(),
    site_id: joi.string().required(),
    type: type.required(),
    status: enumText(importStatuses)
      .required()
      .description('`completed`: all valid records can be read, even if other records failed.'),
    total_records: count,
    processed_records: count.description('Number of records that are processed, including failed ones.'),
    failed_records: count,
    created_at: count,
    finished_at: timeOrNull,
    error: joi.string().allow(null).required().description('Why the import failed. Null: it did not fail.'),
  })
  .id('Import')

const importError = joi.object<ImportError>({
  line: count.description('Line of the file in which the record begins, counted from 1.'),
  record: joi.number().integer().description('Number of the record in the file, counted from 1.'),
  field: joi.string().allow(''),
  message: joi.string().required().description('The error. It never contains values of the file.'),
})

/** `data` of the list. */
export const importsResult = listOf('imports', importResource)

/** `data` of a page of errors. */
export const importErrorsResult = listOf('errors', importError)
