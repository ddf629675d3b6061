import type { Page } from './paging.ts'

/** Kinds of records of a file. */
export const importTypes = ['events', 'users'] as const
export type ImportType = (typeof importTypes)[number]

/** `uploading → queued → processing → completed | failed | cancelled`. */
export const importStatuses = ['uploading', 'queued', 'processing', 'completed', 'failed', 'cancelled'] as const
export type ImportStatus = (typeof importStatuses)[number]

/** Limits of imports. */
export const importLimits = {
  /** The uploaded file, in bytes. */
  fileBytesMax: 2 * 1024 ** 3,
  /** Uploads of one key that may be under way at once, in all processes. */
  concurrentUploadsMax: 4,
  /** Imports of one key, on all sites, that have not ended, including its uploads. */
  waitingPerKeyMax: 1_000,
  /** Code points of each field of a user's record. */
  userFieldLengthMax: 256,
  /** Days after the end of an import for which its errors can be read. */
  errorRetentionDays: 30,
} as const

/** The text fields of POST /api/v1/imports. */
export interface CreateImportFields {
  type: ImportType
  site_id: string
}

/** `data` of POST /api/v1/imports. */
export interface AcceptedImport {
  job_id: string
  status: 'uploading'
  /** Records that the file holds, those included that will fail. */
  total_records: number
}

/** The validated query of GET /api/v1/imports. */
export interface ListImportsQuery extends Page {
  site_id: string
}

/** Record of an import (docs/http-interface.md#import-record); times are in Unix ms. */
export interface ImportResource {
  job_id: string
  site_id: string
  type: ImportType
  status: ImportStatus
  total_records: number
  /** Records that were processed, failed ones included. */
  processed_records: number
  failed_records: number
  created_at: number
  finished_at: number | null
  /** Why the import failed. */
  error: string | null
}

/** Why a record was not imported. */
export interface ImportError {
  /** Line of the file at which the record begins, from 1. */
  line: number
  /** Number of the record in the file, from 1. Builds before it was added wrote errors without. */
  record?: number
  field?: string
  /** Holds no values of the record. */
  message: string
}
