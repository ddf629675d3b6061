import { exportFiles } from './exports/export-files.ts'
import { exportSchedules } from './exports/export-schedules.ts'
import { exports } from './exports/exports.ts'
import { importFiles } from './imports/import-files.ts'
import { imports } from './imports/imports.ts'
import type { JobKind } from './job-kind.ts'

/** The kinds of jobs that the worker does. */
export const jobKinds: readonly JobKind[] = [imports, importFiles, exports, exportSchedules, exportFiles]
