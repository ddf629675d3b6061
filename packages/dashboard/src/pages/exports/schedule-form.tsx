import { useState } from 'preact/hooks'
import { type ExportResource, frequencies, mayGroup, type Scheduled } from '@sluice/contracts/exports'
import { changedFields, changedMembers } from '../../api/changed-fields.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useOperationMutation } from '../../api/hooks.ts'
import { localTime, parseLocalTime } from '../../format/dates.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'

/** Changes a schedule's name, frequency and next run, which is a time of the site's zone, as in the list. */
export function ScheduleForm({
  exportRecord,
  zone,
  onClose,
}: {
  exportRecord: ExportResource
  zone: string
  onClose: () => void
}) {
  const update = useOperationMutation('updateExport', ['listExports', 'getExport'])
  // The export is refetched while the form is open.
  const [opened] = useState(() => ({
    name: exportRecord.name,
    frequency: exportRecord.scheduled?.frequency ?? 'daily',
    next: localTime(exportRecord.scheduled?.next_run ?? Date.now(), zone),
  }))
  const [name, setName] = useState(opened.name)
  const [frequency, setFrequency] = useState(opened.frequency)
  const [next, setNext] = useState(opened.next)
  const errors = fieldErrors(update.error, ['name', 'scheduled.frequency', 'scheduled.next_run'])
  return (
    <FormDialog
      title={texts.editTitle}
      submit={texts.save}
      isBusy={update.isBusy}
      error={errors.rest}
      onClose={onClose}
      onSubmit={async () => {
        const nextRun = parseLocalTime(next, zone)
        const isMoved = next !== opened.next && !Number.isNaN(nextRun)
        const scheduled: Partial<Scheduled> = { frequency, ...(isMoved ? { next_run: nextRun } : {}) }
        await update.run({
          params: { export_id: exportRecord.export_id },
          body: {
            ...changedFields({ name: name.trim() }, opened),
            ...changedMembers('scheduled', scheduled, { frequency: opened.frequency }),
          },
        })
        onClose()
      }}
    >
      <TextField label={texts.name} value={name} onInput={setName} autocomplete="off" error={errors.forField('name')} />
      <SelectField
        label={texts.repeat}
        error={errors.forField('scheduled.frequency')}
        value={frequency}
        options={frequencies
          .filter((value) => mayGroup(exportRecord.group_by, value))
          .map((value) => ({ value, label: texts.frequencies[value] }))}
        onChange={setFrequency}
      />
      <TextField
        label={texts.nextRunIn(zone)}
        type="datetime-local"
        value={next}
        onInput={setNext}
        error={errors.forField('scheduled.next_run')}
      />
    </FormDialog>
  )
}
