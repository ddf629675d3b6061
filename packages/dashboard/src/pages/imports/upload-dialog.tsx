import { useEffect, useRef, useState } from 'preact/hooks'
import { type AcceptedImport, importLimits, type ImportType, importTypes } from '@sluice/contracts/imports'
import { upload } from '../../api/client.ts'
import { type ApiError, asApiError } from '../../api/error.ts'
import { useInvalidate } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { formatBytes, formatProgress } from '../../format/numbers.ts'
import { useMay, useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { RadioGroup } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { Progress, Status } from '../../ui/states.tsx'
import { type Checked, checkHeader, startOf } from './header.ts'
import { texts } from './messages.ts'

interface UploadDialogProps {
  onClose: () => void
  onAccepted: (id: string) => void
}

/**
 * Chooses a file, looks at its header, and sends it. During the upload, only its buttons stop it: Escape, a click
 * outside and the browser's Back do not close the dialog, and leaving the dashboard asks first.
 */
export function UploadDialog({ onClose, onAccepted }: UploadDialogProps) {
  const { site_id: siteId } = useSite()
  const mayImportUsers = useMay('admin')
  const invalidate = useInvalidate()
  const [type, setType] = useState<ImportType>('events')
  const [file, setFile] = useState<File>()
  const [start, setStart] = useState<string>()
  const [isTried, setTried] = useState(false)
  const [share, setShare] = useState<number>()
  const [error, setError] = useState<ApiError>()
  const aborter = useRef<AbortController>()
  const latest = useRef<File>()
  const isSending = share !== undefined
  useEffect(() => () => aborter.current?.abort(), [])
  const checked = start === undefined ? undefined : checkHeader(start, type, mayImportUsers)
  const problem =
    file === undefined ? texts.missingFile : file.size > importLimits.fileBytesMax ? texts.tooLarge : checked?.problem
  const send = async () => {
    setTried(true)
    setError(undefined)
    if (file === undefined || problem !== undefined) return
    const form = new FormData()
    form.set('type', type)
    form.set('site_id', siteId)
    form.set('file', file)
    aborter.current = new AbortController()
    const { signal } = aborter.current
    setShare(0)
    try {
      const accepted = await upload(requestOf('createImport', {}), form, { onProgress: setShare, signal })
      void invalidate('listImports')
      onAccepted((accepted as AcceptedImport).job_id)
    } catch (failure) {
      if (!signal.aborted) setError(asApiError(failure))
    }
    setShare(undefined)
  }
  const stop = () => aborter.current?.abort()
  return (
    <FormDialog
      title={texts.start}
      submit={texts.upload}
      onSubmit={send}
      onClose={() => {
        if (isSending) stop()
        onClose()
      }}
      isBusy={isSending}
      isDismissible={!isSending}
      error={error}
    >
      <RadioGroup
        legend={texts.type}
        value={type}
        options={importTypes.map((value) => ({
          value,
          label: texts.types[value],
          hint: value === 'users' && !mayImportUsers ? texts.usersNeedAdmin : texts.typeHints[value],
          disabled: isSending || (value === 'users' && !mayImportUsers),
        }))}
        onChange={setType}
      />
      <Field label={texts.file} hint={texts.fileHint} error={isTried || file !== undefined ? problem : undefined}>
        {(attributes) => (
          <input
            {...attributes}
            class="input"
            type="file"
            accept=".csv,.tsv,.json,.ndjson,.jsonl,.gz"
            disabled={isSending}
            onChange={(event) => {
              const chosen = event.currentTarget.files?.[0]
              setFile(chosen)
              setStart(undefined)
              setError(undefined)
              latest.current = chosen
              if (chosen === undefined) return
              // Another file may have been chosen before this one is read.
              const judge = (text: string) => {
                if (latest.current === chosen) setStart(text)
              }
              startOf(chosen).then(judge, () => judge('\0'))
            }}
          />
        )}
      </Field>
      {file === undefined || problem !== undefined ? null : <Columns file={file} checked={checked} />}
      {share === undefined ? null : (
        <div class="stack-small">
          <Progress
            label={texts.uploading(formatProgress(share * 100))}
            {...(share < 1 ? { value: share, max: 1 } : {})}
          />
          <div class="row">
            <p class="grow muted">{share < 1 ? texts.uploading(formatProgress(share * 100)) : texts.counting}</p>
            <Button kind="quiet" onClick={stop}>
              {texts.stop}
            </Button>
          </div>
        </div>
      )}
    </FormDialog>
  )
}

function Columns({ file, checked }: { file: File; checked: Checked | undefined }) {
  if (checked === undefined) return <p class="muted">{texts.checking}</p>
  return (
    <div class="stack-small">
      <p>
        <Status kind="good">{checked.isJson ? texts.json : texts.isRight}</Status>
      </p>
      <p class="muted small">
        {formatBytes(file.size)}
        {checked.isJson ? null : (
          <>
            {' · '}
            <bdi>{texts.columns(checked.columns)}</bdi>
          </>
        )}
      </p>
    </div>
  )
}
